package bundle

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"optibfm/configs"
	"optibfm/internal/setup"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// BackendOptions select what CompareBackends compares.
type BackendOptions struct {
	Bundle     string
	TensorFlow tensorflow.Config
	Candidates int // per search, 1 to 65,536
	Searches   int // at least 1
}

// DefaultBackendOptions returns 100 searches with 128 candidates of the program's first embedded model.
func DefaultBackendOptions() BackendOptions {
	return BackendOptions{
		Bundle: configs.Default().Model.Bundle, TensorFlow: tensorflow.DefaultConfig(), Candidates: 128, Searches: 100,
	}
}

// CompareBackends loads TensorFlow, prints its version and devices, and compares its
// searches with those of the native networks. It fails if the library or the
// device is missing, or if the results differ. A SavedModel has no native networks:
// its searches are only timed.
func CompareBackends(out io.Writer, o BackendOptions) error {
	if o.Candidates < 1 || o.Candidates > 1<<16 || o.Searches < 1 {
		return fmt.Errorf("model backend: invalid flags (--candidates %d, --searches %d); use 1 to %d and at least 1",
			o.Candidates, o.Searches, 1<<16)
	}
	opened, err := setup.OpenModel(o.Bundle)
	if err != nil {
		return err
	}
	c := comparison{out: out, candidates: o.Candidates, searches: o.Searches, tf32: o.TensorFlow.TF32}
	if saved, ok := opened.(setup.SavedModel); ok {
		m, err := tensorflow.LoadSavedModel(*saved.SavedModel, o.TensorFlow, o.Candidates)
		if err != nil {
			return err
		}
		printBackend(out, m.Report())
		return errors.Join(c.search(m), m.Close())
	}
	native := opened.(setup.NativeModel).Bundle
	network, err := native.NewNetwork()
	if err != nil {
		return err
	}
	m, err := tensorflow.New(native, o.TensorFlow, o.Candidates)
	if err != nil {
		return err
	}
	printBackend(out, m.Report())
	return errors.Join(c.search(m, network), m.Close())
}

func printBackend(out io.Writer, r tensorflow.Report) {
	var devices []string
	for _, d := range r.Devices {
		name := strings.TrimPrefix(d.Name, "/device:")
		if d.Type == "GPU" {
			name += fmt.Sprintf(" (%d MiB)", d.Memory>>20)
		}
		devices = append(devices, name)
	}
	fmt.Fprintf(out, "TensorFlow  %s, %s\n", r.Version, r.Library)
	fmt.Fprintf(out, "devices     %s; the graph is on %s\n", strings.Join(devices, ", "), r.Device)
}

// comparison compares models on random cases and times them.
type comparison struct {
	out                  io.Writer
	candidates, searches int
	tf32                 bool
}

// search times the searches of m and compares their scores with the native ones, if given.
func (c comparison) search(m tflite.Model, native ...tflite.Model) error {
	a, err := CompareSearches(m, c.candidates, c.searches, native...)
	if err != nil {
		return fmt.Errorf("model backend: %w", err)
	}
	fmt.Fprintf(c.out, "search      %d candidates: %s\n", c.candidates, timesText(a.times, a.nativeTimes))
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
			return a, fmt.Errorf("TensorFlow: %w", err)
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

// compareScores fails where a relative difference is above 1e-4, or above 1e-2 with TF32.
func (c comparison) compareScores(difference float64) error {
	tolerance := 1e-4
	if c.tf32 {
		tolerance = 1e-2
	}
	if difference <= tolerance { // false for NaN
		return nil
	}
	return fmt.Errorf("model backend: the scores of TensorFlow and of the native networks differ "+
		"(%.1e, tolerance %.0e); set model.backend: native, or give --tf32 if TF32 is on", difference, tolerance)
}

// timesText prints quantiles of TensorFlow's times, and of the native ones if there are any.
func timesText(times, native []time.Duration) string {
	text := func(name string, times []time.Duration) string {
		slices.Sort(times)
		ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
		return fmt.Sprintf("%s p50 %.3g ms, p99 %.3g ms", name, ms(times[len(times)/2]), ms(times[len(times)*99/100]))
	}
	if len(native) == 0 {
		return text("TensorFlow", times)
	}
	return text("TensorFlow", times) + "; " + text("native", native)
}
