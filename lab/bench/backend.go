package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/cli/bundle"
	"optibfm/internal/sections"
	"optibfm/internal/setup"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// BackendOptions select what TimeBackend measures.
type BackendOptions struct {
	Random     string        // size of a model with random weights, instead of model.bundle
	Candidates []int         // of the plans, one row each
	Searches   int           // of TensorFlow that are compared with the native ones; 0: none
	Limit      time.Duration // of the plans of one row; there are at least leastPlans
}

// DefaultBackendOptions returns 100 searches, and plans with 128, 512 and 2048 candidates.
func DefaultBackendOptions() BackendOptions {
	return BackendOptions{Candidates: []int{128, 512, 2048}, Searches: 100, Limit: 3 * time.Second}
}

const leastPlans, mostPlans = 5, 1000

// BackendHeader is the head of the table that TimeBackend prints.
const BackendHeader = `| check | model | backend | median | p99 | / π, native | / π, same backend | notes |
| --- | --- | --- | --: | --: | --: | --: | --- |
`

// TimeBackend measures the backend of a configuration: how far TensorFlow's searches differ from
// the native ones, and the time of plans and of φ and π. It prints each result as a row of a table
// as soon as it is known. φ and π are native and on one core, as in a run.
func TimeBackend(ctx context.Context, out io.Writer, f configs.File, o BackendOptions) (err error) {
	if len(o.Candidates) == 0 || slices.Min(o.Candidates) < 1 || o.Searches < 0 {
		return fmt.Errorf("bench: numbers are out of range (candidates %v, searches %d); use at least 1 candidate",
			o.Candidates, o.Searches)
	}
	if f.Controller.Candidates = o.Candidates[0]; f.Controller.NumCandidates() == 0 {
		return fmt.Errorf("bench: controller.strategy: no candidates to evaluate (%s); use %s or %s",
			f.Controller.Strategy, controller.UCB, controller.UCBSphere)
	}
	model, err := openOrDraw(f.Model.Bundle, o.Random)
	if err != nil {
		return err
	}
	start := time.Now()
	opened, release, err := open(f, model, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	t := table{out: out, model: model.Title(), backend: fmt.Sprintf("native, %d processors", runtime.GOMAXPROCS(0))}
	m, accelerated := opened.Planner.(tensorflow.Model)
	if accelerated {
		config := sections.Get[tensorflow.Config](f.Model.Sections)
		t.backend = config.Device
		if config.TF32 {
			t.backend += ", TF32"
		}
		t.row(row{check: "start", median: time.Since(start), notes: "graph and the first 3 searches"})
		if err := t.compare(model, m, o); err != nil {
			return err
		}
		if t.policy, err = policyTime(m, o.Limit); err != nil {
			return fmt.Errorf("bench: π on %s: %w", t.backend, err)
		}
	}
	if t.native, err = policyTime(opened.Control, o.Limit); err != nil {
		return fmt.Errorf("bench: π: %w", err)
	}
	for _, n := range o.Candidates {
		opened.Controller.Candidates = n
		b := newBenchmark(opened)
		if err := b.measurePlans(ctx, o.Limit); err != nil {
			return fmt.Errorf("bench: %d candidates: %w", n, err)
		}
		t.plans(n, b)
	}
	t.row(row{check: "memory", notes: fmt.Sprintf("peak RSS %.0f MB, with the native weights", peakRSS())})
	return t.err
}

func openOrDraw(folder, random string) (setup.Model, error) {
	if random != "" {
		return randomModel(random)
	}
	model, err := setup.OpenModel(folder)
	if err != nil {
		return nil, fmt.Errorf("bench: model.bundle: %w", err)
	}
	return model, nil
}

// measurePlans times plans until the limit.
func (b *benchmark) measurePlans(ctx context.Context, limit time.Duration) error {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // as in measure
	var r *rig
	for start, n := time.Now(), 0; n < mostPlans && (n < leastPlans || time.Since(start) < limit); n++ {
		var err error
		if n%labels == 0 {
			runtime.GC()
			r, err = b.newRig(b.Controller.Strategy)
		}
		if err == nil {
			err = errors.Join(ctx.Err(), r.step())
		}
		if err != nil {
			return err
		}
		b.record(r)
	}
	return nil
}

// policyTime is the median time of π in m.
func policyTime(m tflite.Model, limit time.Duration) (time.Duration, error) {
	normal, d := setup.RandomNormals(), m.Dims()
	action, z := make([]float32, d.Action), make([]float64, d.Latent)
	for i, x := range normal(d.Latent) {
		z[i] = float64(x)
	}
	var p part
	for start, n := time.Now(), 0; n < mostPlans && (n < leastPlans+warmUp || time.Since(start) < limit); n++ {
		obs, began := normal(d.Obs), time.Now()
		if err := m.Act(action, obs, z); err != nil {
			return 0, err
		}
		p.add(calls{took: time.Since(began)})
	}
	p.times = p.times[warmUp:]
	return quantile(p.times, 50), nil
}

// table has the rows of one model and backend.
type table struct {
	out            io.Writer
	model, backend string
	native, policy time.Duration // of π alone, native and on the backend; 0: none
	err            error         // of the first failed write
}

type row struct {
	check        string
	median, p99  time.Duration // 0: none
	native, same float64       // the median's ratios to the time of π; 0: none
	notes        string
}

func (t *table) row(r row) {
	ratio := func(x float64) string {
		if x == 0 {
			return ""
		}
		return threeDigits(x)
	}
	_, err := fmt.Fprintf(t.out, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", r.check, t.model, t.backend,
		milliseconds(r.median), milliseconds(r.p99), ratio(r.native), ratio(r.same), r.notes)
	t.err = cmp.Or(t.err, err)
}

// milliseconds prints a time, nothing for 0.
func milliseconds(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return threeDigits(float64(d)/float64(time.Millisecond)) + " ms"
}

// threeDigits prints three digits, and all digits of a large integer part.
func threeDigits(x float64) string {
	if x < 1000 {
		return fmt.Sprintf("%.3g", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// compare prints how far m's searches differ from the native ones. A SavedModel has none.
func (t *table) compare(model setup.Model, m tensorflow.Model, o BackendOptions) error {
	native, ok := model.(setup.NativeModel)
	if !ok || o.Searches == 0 {
		return nil
	}
	network, err := native.NewNetwork(tflite.Workers(runtime.GOMAXPROCS(0)))
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer network.Close()
	a, err := bundle.CompareSearches(m, o.Candidates[0], o.Searches, network)
	if err != nil {
		return fmt.Errorf("bench: agreement: %w", err)
	}
	t.row(row{check: "agreement", notes: a.String()})
	return nil
}

// plans prints the plans with n candidates, with φ and π of their ticks, where the plan has
// displaced the weights from the processor's cache.
func (t *table) plans(n int, b *benchmark) {
	r := row{
		check: fmt.Sprintf("plan, n = %d", n), median: quantile(b.plan.times, 50), p99: quantile(b.plan.times, 99),
		notes: fmt.Sprintf("%d plans; π alone %s", len(b.plan.times), milliseconds(t.native)),
	}
	r.native = float64(r.median) / float64(max(t.native, 1))
	if t.policy > 0 {
		r.same = float64(r.median) / float64(t.policy)
		r.notes += fmt.Sprintf(", there %s", milliseconds(t.policy))
	}
	r.notes += fmt.Sprintf("; in the tick φ %s, π %s",
		milliseconds(quantile(b.phi.times, 50)), milliseconds(quantile(b.act.times, 50)))
	t.row(r)
}

// quantile returns a percentile, the greatest time if there are few.
func quantile(times []time.Duration, percent int) time.Duration {
	return slices.Sorted(slices.Values(times))[len(times)*percent/100]
}

var highWater = regexp.MustCompile(`(?m)^VmHWM:\s*(\d+) kB$`)

// peakRSS is the process's greatest resident memory in MB, 0 if it is not known.
func peakRSS() (mb float64) {
	status, _ := os.ReadFile("/proc/self/status")
	if found := highWater.FindSubmatch(status); found != nil {
		fmt.Sscan(string(found[1]), &mb)
	}
	return mb * 1024 / 1e6
}
