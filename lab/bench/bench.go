package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"optibfm/controller"
	"optibfm/tflite"
)

// ErrTooSlow is the error of Run if the computer is too slow.
var ErrTooSlow = errors.New("too slow")

// Options describe the measurement.
type Options struct {
	Name       string            // of the model, for the report
	Controller controller.Config // strategy, candidates, replan interval, forgetting
	Period     time.Duration     // of the control loop
	Control    tflite.Model      // evaluates φ and π on the control thread
	Planner    tflite.Model      // evaluates the planner's candidates
	Weights    int64             // bytes of the model's weights; 0: unknown, no limit is reported
	Ticks      int               // to time, at least 1
}

// Run measures and reports. Its error wraps ErrTooSlow if the control tick or the plan does not
// fit; the report is then valid.
func Run(ctx context.Context, o Options) (Report, error) {
	b := newBenchmark(o)
	if err := b.measure(ctx); err != nil {
		return Report{}, fmt.Errorf("bench: %w", err)
	}
	r := b.report()
	return r, errors.Join(r.Tick.tooSlow(), r.Plan.tooSlow())
}

const (
	labels = 100 // ticks of a rig: with many labels the candidates become similar, which is cheaper
	warmUp = 5   // first ticks of a rig, not timed: they fill caches and grow scratch memory
)

// benchmark collects the measurements.
type benchmark struct {
	Options
	control, planner *meter
	states           [][]float32 // observations in turn

	tick, phi, act, update, tickOther part
	plan, search, planOther           part

	copyOne, copyAll []float64 // bytes per ns: GB/s
}

func newBenchmark(o Options) *benchmark {
	b := &benchmark{Options: o, control: &meter{Model: o.Control}, planner: &meter{Model: o.Planner}}
	rng := rand.New(rand.NewPCG(1, 2))
	for range labels {
		obs := make([]float32, o.Control.Dims().Obs)
		for i := range obs {
			obs[i] = float32(rng.NormFloat64())
		}
		b.states = append(b.states, obs)
	}
	return b
}

func (b *benchmark) measure(ctx context.Context) error {
	if b.Ticks < 1 {
		return fmt.Errorf("number of ticks is out of range (%d); use at least 1", b.Ticks)
	}
	buffers := make([][]byte, runtime.GOMAXPROCS(0))
	for i := range buffers {
		buffers[i] = bytes.Repeat([]byte{1}, int(b.Weights)) // untouched pages would share one page of memory
	}
	// As in the control process, no garbage is collected within a tick.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for left := b.Ticks; left > 0; left -= labels {
		r, err := b.newRig(b.Controller.Strategy)
		if err != nil {
			return err
		}
		for range min(left, labels) {
			if err := errors.Join(ctx.Err(), r.step()); err != nil {
				return err
			}
			b.record(r)
		}
		for range 5 {
			b.copyOne = append(b.copyOne, copyRate(buffers[:1]))
			b.copyAll = append(b.copyAll, copyRate(buffers))
		}
		runtime.GC()
	}
	return nil
}

// record takes the times of the rig's last step.
func (b *benchmark) record(r *rig) {
	phi, act, search := b.control.phi, b.control.act, b.planner.search
	tick := r.took - r.plan
	b.tick.add(calls{took: tick})
	b.phi.add(phi)
	b.act.add(act)
	b.update.add(calls{took: r.update})
	b.tickOther.add(calls{took: max(tick-phi.took-act.took-r.update, 0)})
	b.plan.add(calls{took: r.plan})
	if search.took > 0 { // the strategy evaluates the model
		b.search.add(search)
		b.planOther.add(calls{took: r.plan - search.took})
	}
}

// part has the measurements of one line of the report.
type part struct {
	times []time.Duration
	work  tflite.Work // in all times
}

func (p *part) add(c calls) {
	p.times = append(p.times, c.took)
	p.work = sum(p.work, c.work)
}

// calls are the calls of one method in a step.
type calls struct {
	took time.Duration
	work tflite.Work
}

func sum(a, b tflite.Work) tflite.Work {
	return tflite.Work{FLOPs: a.FLOPs + b.FLOPs, Bytes: a.Bytes + b.Bytes}
}

// meter times the calls of a model.
type meter struct {
	tflite.Model
	phi, act, search calls
}

// time adds a call to c.
func (m *meter) time(c *calls, evaluate func() error) error {
	work := func() (w tflite.Work) {
		if n, ok := m.Model.(*tflite.Network); ok {
			w = n.Work()
		}
		return w
	}
	before, start := work(), time.Now()
	err := evaluate()
	c.took += time.Since(start)
	c.work = sum(c.work, work().Sub(before))
	return err
}

func (m *meter) Phi(dst []float64, obs []float32) error {
	return m.time(&m.phi, func() error { return m.Model.Phi(dst, obs) })
}

func (m *meter) Act(dst, obs []float32, z []float64) error {
	return m.time(&m.act, func() error { return m.Model.Act(dst, obs, z) })
}

func (m *meter) Search(obs, candidates []float32, belief tflite.Belief) (best int, score float32, err error) {
	err = m.time(&m.search, func() error {
		best, score, err = m.Model.Search(obs, candidates, belief)
		return err
	})
	return best, score, err
}

// Gradient makes a meter a tflite.Differentiable, for the strategy ucb_gradient.
func (m *meter) Gradient(dz, obs, z []float32, belief tflite.Belief) (score float32, err error) {
	model, ok := m.Model.(tflite.Differentiable)
	if !ok {
		return 0, fmt.Errorf("%T has no gradient; use controller.strategy: %s", m.Model, controller.UCB)
	}
	err = m.time(&m.search, func() error {
		score, err = model.Gradient(dz, obs, z, belief)
		return err
	})
	return score, err
}

// copyRate is the rate in bytes per nanosecond at which goroutines read and write memory, each
// within its own buffer.
func copyRate(buffers [][]byte) float64 {
	const least = 8 << 20 // bytes, for the clock and the goroutines not to matter
	half := len(buffers[0]) / 2
	if half == 0 {
		return 0
	}
	repeats := least/half/2 + 1
	var done sync.WaitGroup
	start := time.Now()
	for _, b := range buffers {
		done.Go(func() {
			for range repeats {
				copy(b[:half], b[half:])
			}
		})
	}
	done.Wait()
	return float64(len(buffers)*repeats*2*half) / float64(time.Since(start))
}
