package controller

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/hal/haltest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
	"optibfm/tflite"
)

const testPeriod = 20 * time.Millisecond

var (
	nan    = math.NaN()
	inf    = math.Inf(1)
	errOut = errors.New("out of order")
)

// stubModel is a trivial model with functions that a test can replace.
type stubModel struct {
	dims   tflite.Dims
	phi    func(dst []float64, obs []float32) error
	act    func(dst, obs []float32, z []float64) error
	search func(obs, candidates []float32, b tflite.Belief) (int, float32, error)
}

func newStub(obs, action, latent int) *stubModel {
	return &stubModel{dims: tflite.Dims{Obs: obs, Action: action, Latent: latent, Ensemble: 1}}
}

func (m *stubModel) Dims() tflite.Dims { return m.dims }

func (m *stubModel) Phi(dst []float64, obs []float32) error {
	if m.phi != nil {
		return m.phi(dst, obs)
	}
	for i := range dst {
		dst[i] = float64(obs[i%len(obs)]) + 0.1*float64(i)
	}
	return nil
}

func (m *stubModel) Act(dst, obs []float32, z []float64) error {
	if m.act != nil {
		return m.act(dst, obs, z)
	}
	for i := range dst {
		dst[i] = 0.5 * obs[i%len(obs)]
	}
	return nil
}

func (m *stubModel) Search(obs, candidates []float32, b tflite.Belief) (int, float32, error) {
	if m.search != nil {
		return m.search(obs, candidates, b)
	}
	return 0, 0, nil
}

func (m *stubModel) Gradient(dz, _, _ []float32, _ tflite.Belief) (float32, error) {
	clear(dz)
	return 0, nil
}

// stubSource returns the labels in its queue and records its calls.
type stubSource struct {
	queue   []rewardsrc.Label
	asked   []rewardsrc.Request
	onAsk   func(rewardsrc.Request)
	watched []watched
	away    bool
}

// Reachable implements rewardsrc.Reachable.
func (s *stubSource) Reachable() bool { return !s.away }

type watched struct {
	tick   uint64
	at     int64
	reward float64
	ok     bool
}

func (s *stubSource) Ask(r rewardsrc.Request) {
	s.asked = append(s.asked, r)
	if s.onAsk != nil {
		s.onAsk(r)
	}
}

func (s *stubSource) Poll(dst []rewardsrc.Label) int {
	n := copy(dst, s.queue)
	s.queue = s.queue[:copy(s.queue, s.queue[n:])]
	return n
}

func (s *stubSource) Halt() error { return nil }

func (s *stubSource) Watch(tick uint64, at int64, reward float64, ok bool) {
	s.watched = append(s.watched, watched{tick, at, reward, ok})
}

func (s *stubSource) give(labels ...rewardsrc.Label) { s.queue = append(s.queue, labels...) }

// stubPlans replaces a planner in another process.
type stubPlans struct {
	state    *State
	plan     *Plan // nil before the first
	offerErr error
	offered  int
	onOffer  func(*State)
}

func newStubPlans(s Shape) *stubPlans { return &stubPlans{state: NewState(s), plan: NewPlan(s)} }

func (p *stubPlans) State() *State { return p.state }

func (p *stubPlans) Offer() error {
	p.offered++
	if p.onOffer != nil {
		p.onOffer(p.state)
	}
	return p.offerErr
}

func (p *stubPlans) Latest() *Plan { return p.plan }

// confirm makes the planner return a plan of ones at every offer.
func (p *stubPlans) confirm() {
	for i := range p.plan.Z {
		p.plan.Z[i] = 1
	}
	p.onOffer = func(s *State) { p.plan.Tick, p.plan.Confirmed = s.Tick(), s.Tick() }
}

// rig is an agent with fake parts.
type rig struct {
	t      testing.TB
	cfg    Config
	robot  *haltest.Simulator
	model  *stubModel
	source *stubSource
	plans  Plans
	agent  *Agent
	tick   *Tick
	safety Safety
	hold   string
	next   uint64

	frozenClock bool // the robot's samples age
	random      *rand.Rand
}

const (
	rigObs    = 3
	rigAction = 2
	rigLatent = 4
)

// newRig makes an armed agent in lockstep on a robot that senses random
// observations within ±1. change edits the configuration.
func newRig(t testing.TB, change func(*Config)) *rig {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Candidates = 4
	if change != nil {
		change(&cfg)
	}
	r := &rig{
		t: t, cfg: cfg, model: newStub(rigObs, rigAction, rigLatent), source: &stubSource{},
		random: rand.New(rand.NewPCG(1, 2)),
	}
	r.robot = haltest.NewSimulator(haltest.Spec(rigObs, rigAction))
	r.robot.Observe = func(_ int, obs []float32) error {
		for i := range obs {
			obs[i] = float32(2*r.random.Float64() - 1)
		}
		return nil
	}
	r.robot.RewardOf = func(obs []float32) float64 { return float64(obs[0]) }
	planner, err := NewPlanner(cfg, r.model)
	fatal.If(t, err)
	r.plans = NewLockstep(planner)
	r.build(r.robot)
	r.arm()
	return r
}

func (r *rig) build(robot hal.Robot) {
	r.t.Helper()
	agent, err := NewAgent(r.cfg, Parts{
		Robot: robot, Source: r.source, Model: r.model, Plans: r.plans, Safety: r.safety, Hold: r.hold,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.agent = agent
	r.tick = NewTick(agent.Shape())
}

// stubPlanner replaces the planner by a stub.
func (r *rig) stubPlanner() *stubPlans {
	r.t.Helper()
	plans := newStubPlans(Shape{rigObs, rigAction, rigLatent, 0})
	plans.confirm()
	r.plans = plans
	r.build(r.robot)
	r.arm()
	return plans
}

func (r *rig) arm() {
	r.t.Helper()
	if err := r.agent.Arm(0); err != nil {
		r.t.Fatal(err)
	}
}

// step runs a tick after skipping some.
func (r *rig) step(skip uint64, flags Flags) error {
	r.next += skip
	r.tick.Index, r.tick.Elapsed, r.tick.Flags = r.next, 1+skip, flags
	if r.next == 0 {
		r.tick.Elapsed = 0
	}
	r.next++
	r.tick.Wake = int64(r.tick.Index+1) * int64(testPeriod)
	if !r.frozenClock {
		r.robot.Now = r.tick.Wake
	} else {
		r.robot.Now -= int64(testPeriod) // which a Sense adds
	}
	return r.agent.Step(r.tick)
}

// steps runs n ticks that must succeed.
func (r *rig) steps(n int) {
	r.t.Helper()
	for range n {
		if err := r.step(0, 0); err != nil {
			r.t.Fatal(err)
		}
	}
}

// fails runs a tick that must halt the robot for the given reason.
func (r *rig) fails(want Fault) *FaultError {
	r.t.Helper()
	err := r.step(0, 0)
	var fault *FaultError
	if !errors.As(err, &fault) || fault.Fault != want || r.tick.Fault != want || fault.Tick != r.tick.Index {
		r.t.Fatalf("tick %d: got %v with Fault %v, want %v", r.tick.Index, err, r.tick.Fault, want)
	}
	if !r.robot.Halted || r.agent.Armed() {
		r.t.Fatalf("tick %d: the robot is not halted after %v", r.tick.Index, err)
	}
	return fault
}

// applied returns the only label of the last tick.
func (r *rig) applied() AppliedLabel {
	r.t.Helper()
	if r.tick.NumLabels != 1 {
		r.t.Fatalf("tick %d: %d labels, want 1", r.tick.Index, r.tick.NumLabels)
	}
	return r.tick.Labels[0]
}

// value is an unasked label about a tick.
func value(id, tick uint64, reward float64) rewardsrc.Label {
	return rewardsrc.Label{ID: id, Kind: rewardsrc.Value, Tick: tick, Value: reward}
}

// answer is a label that answers a request.
func answer(id, request uint64, reward float64) rewardsrc.Label {
	return rewardsrc.Label{ID: id, Kind: rewardsrc.Value, Request: request, Tick: rewardsrc.NoTick, Value: reward}
}

// press is an unasked label without a tick.
func press(id uint64, at int64, reward float64) rewardsrc.Label {
	return rewardsrc.Label{ID: id, Kind: rewardsrc.Value, Tick: rewardsrc.NoTick, At: at, Value: reward}
}

func state(l *Learner) []float64 {
	s := make([]float64, stateLen(l))
	l.belief.State(s)
	return s
}
