package bundle

import (
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/registry"
	"optibfm/internal/setup"
	"optibfm/rtloop"
	"optibfm/tflite"
)

// BackendOptions select what CompareBackend compares.
type BackendOptions struct {
	Config     string   // a file or the name of a ready configuration
	Set        []string // overrides of configuration keys, KEY=VALUE
	Candidates int      // per search, 1 to 65,536
	Searches   int      // at least 1
}

// DefaultBackendOptions returns 100 searches with 128 candidates and the program's first
// configuration.
func DefaultBackendOptions() BackendOptions {
	return BackendOptions{Config: configs.DefaultName(), Candidates: 128, Searches: 100}
}

// CompareBackend opens the backend of a configuration, prints what it runs on if its models are a
// fmt.Stringer, and compares its searches with those of the native networks. It fails if the
// backend is missing, or if the results differ. A SavedModel has no native networks: its searches
// are only timed.
func CompareBackend(out io.Writer, o BackendOptions) (err error) {
	if o.Candidates < 1 || o.Candidates > 1<<16 || o.Searches < 1 {
		return fmt.Errorf("model backend: invalid flags (--candidates %d, --searches %d); use 1 to %d and at least 1",
			o.Candidates, o.Searches, 1<<16)
	}
	f, err := configs.Load(o.Config, o.Set...)
	if err != nil {
		return err
	}
	f.Controller.Strategy, f.Controller.Candidates = controller.UCB, o.Candidates
	f.Loop.Posture, f.Run.Lockstep = rtloop.Strict, true // a missing backend is an error
	opened, err := setup.ConfiguredModel(f)
	if err != nil {
		return err
	}
	var networks []tflite.Model
	c := comparison{out: out, backend: f.Model.Backend, candidates: o.Candidates, searches: o.Searches, tolerance: 1e-4}
	native, isNative := opened.(setup.NativeModel)
	switch {
	case !isNative:
		c.backend = registry.EvaluatorOfSavedModels().Section
	case c.backend == registry.BackendNative:
		return errors.New("model backend: model.backend is native: nothing to compare; " +
			"give another one, such as --set model.backend=tensorflow")
	default:
		network, err := native.NewNetwork()
		if err != nil {
			return err
		}
		networks = append(networks, network)
	}
	if s, ok := f.Model.Section(c.backend).(registry.Rounding); ok {
		c.tolerance = s.ScoreTolerance()
	}
	m, _, err := opened.Searcher(f, runtime.GOMAXPROCS(0))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, setup.CloseModels(m)) }()
	if s, ok := m.(fmt.Stringer); ok {
		fmt.Fprintln(out, s)
	}
	return c.search(m, networks...)
}

// comparison compares models on random cases and times them.
type comparison struct {
	out                  io.Writer
	backend              string
	candidates, searches int
	tolerance            float64 // of scores, relative
}

// search times the searches of m and compares their scores with the native ones, if given.
func (c comparison) search(m tflite.Model, native ...tflite.Model) error {
	a, err := CompareSearches(m, c.candidates, c.searches, native...)
	if err != nil {
		return fmt.Errorf("model backend: %w", err)
	}
	fmt.Fprintf(c.out, "search      %d candidates: %s\n", c.candidates, c.timesText(a.times, a.nativeTimes))
	if len(native) == 0 {
		return nil
	}
	fmt.Fprintf(c.out, "agreement   %s\n", a)
	return c.compareScores(a.Worst)
}

// Agreement is how the searches of a model differ from those of the native networks.
type Agreement struct {
	Searches int
	Others   int     // searches with another best candidate
	Worst    float64 // largest relative difference of two scores

	times, nativeTimes []time.Duration
}

func (a Agreement) String() string {
	return fmt.Sprintf("%d of %d searches have another best; scores differ by at most %.1e", a.Others, a.Searches, a.Worst)
}

// CompareSearches compares searches of m among random candidates with the native ones, if given.
func CompareSearches(m tflite.Model, candidates, searches int, native ...tflite.Model) (a Agreement, err error) {
	normal, d := setup.RandomNormals(), m.Dims()
	belief := tflite.Belief{Mean: normal(d.Latent), InvR: normal(d.Latent * d.Latent), Beta: 1}
	for range searches {
		obs, zs := normal(d.Obs), normal(candidates*d.Latent)
		start := time.Now()
		best, score, err := m.Search(obs, zs, belief)
		if err != nil {
			return a, err
		}
		a.Searches++
		a.times = append(a.times, time.Since(start))
		for _, n := range native {
			start := time.Now()
			nativeBest, want, err := n.Search(obs, zs, belief)
			if err != nil {
				return a, fmt.Errorf("native: %w", err)
			}
			a.nativeTimes = append(a.nativeTimes, time.Since(start))
			a.Worst = max(a.Worst, math.Abs(float64(score-want)/float64(want)))
			if best != nativeBest {
				a.Others++
			}
		}
	}
	return a, nil
}

// compareScores fails where a relative difference is above the tolerance.
func (c comparison) compareScores(difference float64) error {
	if difference <= c.tolerance { // false for NaN
		return nil
	}
	return fmt.Errorf("model backend: the scores of %s and of the native networks differ (%.1e, tolerance %.0e); "+
		"set model.backend: native", c.backend, difference, c.tolerance)
}

// timesText prints quantiles of the backend's times, and of the native ones if there are any.
func (c comparison) timesText(times, native []time.Duration) string {
	text := func(name string, times []time.Duration) string {
		slices.Sort(times)
		ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
		return fmt.Sprintf("%s p50 %.3g ms, p99 %.3g ms", name, ms(times[len(times)/2]), ms(times[len(times)*99/100]))
	}
	if len(native) == 0 {
		return text(c.backend, times)
	}
	return text(c.backend, times) + "; " + text("native", native)
}
