package flightlog

import (
	"math"
	"math/rand/v2"
	"testing"

	"optibfm/controller"
	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// simulation is a run of the learner and the gate on random features, as the agent makes
// it. The operator answers requests late, presses without a request and sometimes undoes
// a press.
type simulation struct {
	cfg     controller.Config
	ticks   uint64
	every   uint64                   // ticks between snapshots
	drop    func(index uint64) bool  // ticks that do not reach the log
	change  func(t *controller.Tick) // changes what is logged, not the run
	reward  bool                     // ticks carry the reward of the true z
	labels  func(index uint64) bool  // an oracle labels this tick at once
	keep    bool                     // the operator undoes no press
	silent  bool                     // the operator does nothing
	away    func(index uint64) bool  // the operator is unreachable
	noStart bool                     // no snapshot at the start
	warm    bool                     // the belief holds a label at the start
	turn    uint64                   // from this tick on the task is the opposite one; 0: never
	keeps   uint64                   // so many ticks after the task changed the operator keeps the former one; 0: never
	another uint64                   // before this tick the run switches to a saved task; 0: never
	spoil   func(s *Snapshot)        // changes the snapshot of that switch in the log; without a Task it is missing
}

func simulationConfig() controller.Config {
	cfg := controller.DefaultConfig()
	cfg.Rho, cfg.Gate.Kappa, cfg.Gate.RequestsPerMinute = 0.999, 0.05, 0
	return cfg
}

// run returns the path of the log and ẑ at its end.
func (s simulation) run(t *testing.T) (path string, z []float64) {
	t.Helper()
	meta := testMetadata(testShape)
	meta.Control = s.cfg
	w, path := create(t, meta, Options{NoSync: true})
	learner, err := controller.NewLearner(s.cfg, testShape.Latent, meta.Robot.Period)
	must(t, err)
	r := simulatedRun{
		simulation: s, t: t, w: w, learner: learner,
		learnt: controller.NewProficiency(s.cfg.Gate, meta.Robot.Period),
		gate:   controller.NewGate(s.cfg.Gate, learner.LabelWeight(), meta.Robot.Period),
		rng:    rand.New(rand.NewPCG(3, 5)), nextID: 1,
	}
	r.truth = randomVector(r.rng, testShape.Latent)
	if s.warm {
		must(t, learner.WarmStart(r.truth, []float64{1}))
	}
	if !s.noStart {
		r.snapshot(0)
	}
	index, elapsed := uint64(0), uint64(0)
	for range s.ticks {
		r.step(index, elapsed)
		elapsed = 1
		if r.rng.IntN(20) == 0 {
			elapsed = 1 + r.rng.Uint64N(3) // skipped periods
		}
		index += elapsed
	}
	must(t, w.Close())
	z = make([]float64, testShape.Latent)
	learner.Belief().Mean(z)
	return path, z
}

type simulatedRun struct {
	simulation
	t       *testing.T
	w       *Writer
	learner *controller.Learner
	learnt  *controller.Proficiency

	changed bool

	gate    *controller.Gate
	rng     *rand.Rand
	truth   []float64
	nextID  uint64
	waiting []rewardsrc.Label // At is the tick of delivery until then
}

func (r *simulatedRun) snapshot(next uint64) {
	state := make([]float64, testShape.StateLen())
	r.learner.Belief().State(state)
	must(r.t, r.w.WriteSnapshot(Snapshot{
		Next: next, State: state, Hash: r.learner.Belief().Hash(), Noise: r.learner.Noise(),
	}))
}

func (r *simulatedRun) step(index, elapsed uint64) {
	tick := randomTick(testShape, index)
	tick.Elapsed, tick.NumLabels, tick.Flags = elapsed, 0, controller.FlagArmed
	copy(tick.Phi, randomVector(r.rng, testShape.Latent))
	if r.another > 0 && index >= r.another {
		r.another, r.changed = 0, false
		r.switchTask(tick)
	}
	if r.changed {
		r.learner.Relearn(index)
		r.learnt.Resume(false)
	}
	r.learner.Advance(elapsed)
	if r.turn > 0 && index >= r.turn {
		for i := range r.truth {
			r.truth[i] *= -1
		}
		r.turn = 0
	}
	r.learner.Observe(index, tick.SenseAt, tick.Phi, nil)
	tick.NormSq = r.learner.Belief().NormSq(tick.Phi)
	tick.DGap = posterior.DGap(tick.NormSq, r.learner.LabelWeight())
	tick.Reward = dot(tick.Phi, r.truth)
	if r.reward {
		tick.Flags |= controller.FlagReward
	}
	r.ask(tick)
	r.press(tick)
	r.deliver(tick)
	tick.Revised = r.learner.Settle(tick.Index)
	tick.Sigma, tick.Zero, tick.Predicted = r.learner.Sigma(), r.learner.Zero(), r.learner.Predicted()
	tick.Reaction = r.learner.Reaction()
	tick.Evidence = r.learner.Evidence()
	if kept(tick) {
		r.learnt.Resume(false)
	}
	if tick.Known = (controller.Interval{Low: 1, Middle: 1, High: 1}); r.learnt.Advance(tick) {
		tick.Flags |= controller.FlagLearnt
	}
	r.judge(tick)
	tick.LogDet, tick.Hash = r.learner.Belief().LogDet(), r.learner.Belief().Hash()
	if r.change != nil {
		r.change(tick)
	}
	if r.drop == nil || !r.drop(index) {
		must(r.t, r.w.WriteTick(tick))
	}
	if r.every > 0 && (index+1)%r.every == 0 {
		r.snapshot(index + 1)
	}
}

// judge decides whether the task has changed.
func (r *simulatedRun) judge(tick *controller.Tick) {
	if r.changed = r.learner.Changed(); r.changed {
		tick.Flags |= controller.FlagChanged
	}
	if r.learner.Keepable() {
		tick.Flags |= controller.FlagKeepable
	}
}

// switchTask switches to the belief of a task with one label.
func (r *simulatedRun) switchTask(tick *controller.Tick) {
	other, err := controller.NewLearner(r.cfg, testShape.Latent, testMetadata(testShape).Robot.Period)
	must(r.t, err)
	must(r.t, other.WarmStart(randomVector(r.rng, testShape.Latent), []float64{1}))
	state := make([]float64, testShape.StateLen())
	other.Belief().State(state)
	must(r.t, r.learner.SwitchTask(state, other.Noise()))
	r.gate.Forget()
	r.learnt.Resume(false)
	tick.Flags |= controller.FlagSwitched
	s := Snapshot{Next: tick.Index, State: state, Hash: other.Belief().Hash(), Noise: other.Noise(), Task: "walk"}
	if r.spoil != nil {
		r.spoil(&s)
	}
	if s.Task != "" {
		must(r.t, r.w.WriteSnapshot(s))
	}
}

// ask opens a request if the gate does. The operator answers 12 periods later.
func (r *simulatedRun) ask(tick *controller.Tick) {
	r.gate.Expire(tick.Index)
	away := r.away != nil && r.away(tick.Index)
	if away {
		tick.Flags |= controller.FlagUnreachable
	} else {
		r.gate.Advance(tick.Elapsed)
	}
	tick.Kappa = r.gate.Kappa()
	if !r.gate.Passes(tick.NormSq) || r.silent || away {
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
	must(r.t, r.w.WriteRequest(request))
	r.waiting = append(r.waiting, rewardsrc.Label{
		Request: request.ID, Tick: request.Tick, At: int64(tick.Index) + 12,
		Value: tick.Reward, Weight: 0.8, Kind: rewardsrc.Value,
	})
}

// press adds labels without a request.
func (r *simulatedRun) press(tick *controller.Tick) {
	label := rewardsrc.Label{Tick: rewardsrc.NoTick, At: int64(tick.Index), Value: 0.3, Kind: rewardsrc.Value}
	if !r.silent && r.rng.IntN(40) == 0 {
		unasked := label
		unasked.Kind = []rewardsrc.Kind{rewardsrc.Value, rewardsrc.Comparison, rewardsrc.Goal}[r.rng.IntN(3)]
		r.waiting = append(r.waiting, unasked)
	}
	if !r.silent && !r.keep && r.rng.IntN(90) == 0 {
		undo := rewardsrc.Label{Tick: rewardsrc.NoTick, At: int64(tick.Index), Kind: rewardsrc.Undo}
		r.waiting = append(r.waiting, undo)
	}
	if r.learner.Keepable() && r.keeps > 0 {
		if r.keeps--; r.keeps == 0 {
			r.waiting = append(r.waiting, rewardsrc.Label{
				Tick: rewardsrc.NoTick, At: int64(tick.Index), Kind: rewardsrc.Keep,
			})
		}
	}
	if r.labels != nil && r.labels(tick.Index) {
		label.Tick, label.Value = tick.Index, tick.Reward
		r.waiting = append(r.waiting, label)
	}
}

// deliver applies the labels that are due.
func (r *simulatedRun) deliver(tick *controller.Tick) {
	var later []rewardsrc.Label
	for _, label := range r.waiting {
		if label.At > int64(tick.Index) || tick.NumLabels == controller.MaxLabels {
			later = append(later, label)
			continue
		}
		label.ID, label.At = r.nextID, tick.SenseAt
		r.nextID++
		must(r.t, r.w.WriteLabel(label))
		asked := uint64(0)
		if label.Request != 0 {
			asked, _ = r.gate.Find(label.Request)
			r.gate.Answer(label.Request)
		}
		tick.Labels[tick.NumLabels] = r.learner.Apply(label, asked)
		tick.NumLabels++
	}
	r.waiting = later
}

func randomVector(rng *rand.Rand, d int) []float64 {
	v := make([]float64, d)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}

func dot(x, y []float64) (sum float64) {
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

func sameVector(t *testing.T, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d numbers, want %d", len(got), len(want))
	}
	for i := range want {
		if math.Abs(got[i]-want[i]) > tolerance {
			t.Fatalf("[%d]: got %g, want %g", i, got[i], want[i])
		}
	}
}
