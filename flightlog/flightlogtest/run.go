// Package flightlogtest simulates runs whose logs tests read.
package flightlogtest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"optibfm/controller"
	"optibfm/internal/fatal"
	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// Run is a run of the learner and the gate on random features, as the agent makes it. The operator
// answers requests late, presses without a request and sometimes undoes a press.
type Run struct {
	Config   controller.Config
	Latent   int // dimensions
	Period   time.Duration
	Ticks    uint64
	Every    uint64                   // ticks between snapshots
	Drop     func(index uint64) bool  // ticks that do not reach the log
	Change   func(t *controller.Tick) // changes what is logged, not the run
	Reward   bool                     // ticks carry the reward of the true z
	Labels   func(index uint64) bool  // an oracle labels this tick at once
	Keep     bool                     // the operator undoes no press
	Silent   bool                     // the operator does nothing
	CantTell bool                     // the operator cannot answer one of nine requests
	Away     func(index uint64) bool  // the operator is unreachable
	NoStart  bool                     // no snapshot at the start
	Compares bool                     // the operator answers with a comparison with the period before, if that ran
	Warm     bool                     // the belief holds a label at the start, with an estimate of the noise
	Turn     uint64                   // from this tick on the task is the opposite one; 0: never
	Keeps    uint64                   // so many ticks after the task changed the operator keeps the former one; 0: never
	Another  uint64                   // before this tick the run switches to a saved task; 0: never
}

// Log receives a run.
type Log interface {
	WriteTick(t *controller.Tick) error
	WriteLabel(l rewardsrc.Label) error
	WriteRequest(r rewardsrc.Request) error
	// WriteLearner writes a snapshot of a learner, before the tick next; task is the name of a
	// saved task to which the run switches, or empty.
	WriteLearner(next uint64, l *controller.Learner, task string) error
}

// Config is the default configuration with more forgetting and questions.
func Config() controller.Config {
	cfg := controller.DefaultConfig()
	cfg.Rho, cfg.Gate.Kappa, cfg.Gate.RequestsPerMinute = 0.999, 0.05, 0
	return cfg
}

// Write writes the run and returns ẑ at its end. tick returns the tick of an index, whose
// observation, action and times are used.
func (s Run) Write(t testing.TB, log Log, tick func(index uint64) *controller.Tick) (z []float64) {
	t.Helper()
	learner, err := controller.NewLearner(s.Config, s.Latent, s.Period)
	fatal.If(t, err)
	r := run{
		Run: s, t: t, log: log, learner: learner,
		learnt: controller.NewProficiency(s.Config.Gate, s.Period),
		gate:   controller.NewGate(s.Config.Gate, learner.LabelWeight(), s.Period),
		rng:    rand.New(rand.NewPCG(3, 5)), nextID: 1,
	}
	r.truth = r.vector()
	if s.Warm {
		fatal.If(t, learner.WarmStart(r.truth, []float64{1}))
		state := make([]float64, posterior.StateLen(learner.Belief().Dim()))
		learner.Belief().State(state)
		fatal.If(t, learner.Restore(state, controller.NoiseState{Squares: 90, Count: 9, Labels: 1}))
	}
	if !s.NoStart {
		fatal.If(t, log.WriteLearner(0, learner, ""))
	}
	index, elapsed := uint64(0), uint64(0)
	for range s.Ticks {
		r.step(tick(index), index, elapsed)
		elapsed = 1
		if r.rng.IntN(20) == 0 {
			elapsed = 1 + r.rng.Uint64N(3) // skipped periods
		}
		index += elapsed
	}
	z = make([]float64, s.Latent)
	learner.Belief().Mean(z)
	return z
}

type run struct {
	Run
	t       testing.TB
	log     Log
	learner *controller.Learner
	learnt  *controller.Proficiency
	changed bool
	gate    *controller.Gate
	rng     *rand.Rand
	truth   []float64
	nextID  uint64
	waiting []rewardsrc.Label // At is the tick of delivery until then
}

func (r *run) step(tick *controller.Tick, index, elapsed uint64) {
	tick.Elapsed, tick.NumLabels, tick.Flags = elapsed, 0, controller.FlagArmed
	copy(tick.Phi, r.vector())
	if r.Another > 0 && index >= r.Another {
		r.Another, r.changed = 0, false
		r.switchTask(tick)
	}
	if r.changed {
		r.learner.Relearn(index)
		r.learnt.Resume(false)
	}
	r.learner.Advance(elapsed)
	if r.Turn > 0 && index >= r.Turn {
		for i := range r.truth {
			r.truth[i] *= -1
		}
		r.Turn = 0
	}
	r.learner.Observe(index, tick.SenseAt, tick.Phi, nil)
	tick.NormSq = r.learner.Belief().NormSq(tick.Phi)
	tick.DGap = posterior.DGap(tick.NormSq, r.learner.LabelWeight())
	tick.Reward = dot(tick.Phi, r.truth)
	if r.Reward {
		tick.Flags |= controller.FlagReward
	}
	r.ask(tick)
	r.press(tick)
	r.deliver(tick)
	tick.Revised = r.learner.Settle(tick.Index)
	tick.Sigma, tick.Zero, tick.Predicted = r.learner.Sigma(), r.learner.Zero(), r.learner.Predicted()
	tick.Reaction = r.learner.Reaction()
	tick.Evidence, tick.Request = r.learner.Evidence(), r.gate.OpenRequest()
	if slices.ContainsFunc(tick.Labels[:tick.NumLabels], func(l controller.AppliedLabel) bool {
		return l.Kind == rewardsrc.Keep && l.Outcome == controller.Applied
	}) {
		r.learnt.Resume(false)
	}
	if tick.Known = (controller.Interval{Low: 1, Middle: 1, High: 1}); r.learnt.Advance(tick) {
		tick.Flags |= controller.FlagLearnt
	}
	r.judge(tick)
	tick.LogDet, tick.Hash = r.learner.Belief().LogDet(), r.learner.Belief().Hash()
	if r.Change != nil {
		r.Change(tick)
	}
	if r.Drop == nil || !r.Drop(index) {
		fatal.If(r.t, r.log.WriteTick(tick))
	}
	if r.Every > 0 && (index+1)%r.Every == 0 {
		fatal.If(r.t, r.log.WriteLearner(index+1, r.learner, ""))
	}
}

// judge decides whether the task has changed.
func (r *run) judge(tick *controller.Tick) {
	if r.changed = r.learner.Changed(); r.changed {
		tick.Flags |= controller.FlagChanged
	}
	if r.learner.Keepable() {
		tick.Flags |= controller.FlagKeepable
	}
}

// switchTask switches to the belief of a task with one label.
func (r *run) switchTask(tick *controller.Tick) {
	other, err := controller.NewLearner(r.Config, r.Latent, r.Period)
	fatal.If(r.t, err)
	fatal.If(r.t, other.WarmStart(r.vector(), []float64{1}))
	state := make([]float64, posterior.StateLen(r.Latent))
	other.Belief().State(state)
	fatal.If(r.t, r.learner.SwitchTask(state, other.Noise()))
	r.gate.Forget()
	r.learnt.Resume(false)
	tick.Flags |= controller.FlagSwitched
	fatal.If(r.t, r.log.WriteLearner(tick.Index, other, "walk"))
}

// ask opens a request if the gate does. The operator answers 12 periods later.
func (r *run) ask(tick *controller.Tick) {
	if closed, ok := r.gate.Expire(tick.Index); ok {
		fatal.If(r.t, r.log.WriteRequest(closed))
	}
	away := r.Away != nil && r.Away(tick.Index)
	if away {
		tick.Flags |= controller.FlagUnreachable
	} else {
		r.gate.Advance(tick.Elapsed)
	}
	tick.Kappa = r.gate.Kappa()
	if !r.gate.Passes(tick.NormSq) || r.Silent || away {
		return
	}
	request, ok := r.gate.Ask(tick.Index, tick.SenseAt, tick.DGap)
	if !ok {
		return
	}
	tick.Flags |= controller.FlagAsked
	if !r.gate.Heard() {
		tick.Flags |= controller.FlagUncounted
	}
	fatal.If(r.t, r.log.WriteRequest(request))
	answer := rewardsrc.Label{
		Request: request.ID, Tick: request.Tick, At: int64(tick.Index) + 12,
		Value: tick.Reward, Weight: 0.8, Kind: rewardsrc.Value,
	}
	if r.Compares && tick.Elapsed == 1 {
		answer.Kind = rewardsrc.Comparison
	}
	if r.CantTell && r.rng.IntN(9) == 0 {
		answer.Kind = rewardsrc.CantTell
	}
	r.waiting = append(r.waiting, answer)
}

// press adds labels without a request.
func (r *run) press(tick *controller.Tick) {
	label := rewardsrc.Label{Tick: rewardsrc.NoTick, At: int64(tick.Index), Value: 0.3, Kind: rewardsrc.Value}
	if !r.Silent && r.rng.IntN(40) == 0 {
		unasked := label
		unasked.Kind = []rewardsrc.Kind{rewardsrc.Value, rewardsrc.Comparison, rewardsrc.Goal}[r.rng.IntN(3)]
		r.waiting = append(r.waiting, unasked)
	}
	if !r.Silent && !r.Keep && r.rng.IntN(90) == 0 {
		undo := rewardsrc.Label{Tick: rewardsrc.NoTick, At: int64(tick.Index), Kind: rewardsrc.Undo}
		r.waiting = append(r.waiting, undo)
	}
	if r.learner.Keepable() && r.Keeps > 0 {
		if r.Keeps--; r.Keeps == 0 {
			r.waiting = append(r.waiting, rewardsrc.Label{
				Tick: rewardsrc.NoTick, At: int64(tick.Index), Kind: rewardsrc.Keep,
			})
		}
	}
	if r.Labels != nil && r.Labels(tick.Index) {
		label.Tick, label.Value = tick.Index, tick.Reward
		r.waiting = append(r.waiting, label)
	}
}

// deliver applies the labels that are due.
func (r *run) deliver(tick *controller.Tick) {
	var later []rewardsrc.Label
	for _, label := range r.waiting {
		if label.At > int64(tick.Index) || tick.NumLabels == controller.MaxLabels {
			later = append(later, label)
			continue
		}
		label.ID, label.At = r.nextID, tick.SenseAt
		r.nextID++
		fatal.If(r.t, r.log.WriteLabel(label))
		asked := uint64(0)
		if label.Request != 0 {
			asked, _ = r.gate.Find(label.Request)
			if closed, ok := r.gate.Answer(label.Request); ok {
				fatal.If(r.t, r.log.WriteRequest(closed))
			}
		}
		tick.Labels[tick.NumLabels] = r.learner.Apply(label, asked)
		tick.NumLabels++
	}
	r.waiting = later
}

func (r *run) vector() []float64 {
	v := make([]float64, r.Latent)
	for i := range v {
		v[i] = r.rng.NormFloat64()
	}
	return v
}

func dot(x, y []float64) (sum float64) {
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}
