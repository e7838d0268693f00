package control

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/hal/haltest"
	"optibfm/internal/host"
	"optibfm/internal/link"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/rewardsrc"
	"optibfm/rtloop"
)

// faultRig is a control process and its host's end, tick by tick on made-up
// time, around a robot that is no simulator and that an operator arms.
type faultRig struct {
	t *testing.T
	*twoEnds
	robot  *haltest.Stoppable
	gpu    *rigtest.FaultyModel // what the planner searches with
	answer *host.Planner        // the planner at work
	period time.Duration
	last   controller.Tick // the newest record that the host got
	labels uint64
	random *rand.Rand

	// What a fault changes.
	hostSilent, hostDeaf, planless, oldSamples bool
	elapsed                                    uint64 // periods to the next tick; 0: 1
	spoilPlan                                  func(*controller.Plan)
}

const (
	rigSampleAge   = 6  // periods; more than bad ticks are borne
	rigFrozen      = 10 // ticks
	rigPlanAge     = 25 // ticks
	rigBadTicks    = 3
	rigHostSilence = 50 // ticks
)

func newFaultRig(t *testing.T, afterStop string) *faultRig {
	t.Helper()
	spec := haltest.Spec(6, 2)
	for i := range spec.Obs {
		spec.Obs[i].Min, spec.Obs[i].Max = -10, 10
	}
	spec.Action[0].Failsafe, spec.Action[0].Disarmed = 0.25, -0.75
	s := rigtest.NewSession(t, func(f *configs.File) {
		f.Safety = configs.Safety{
			Arm: configs.ArmOperator, AfterStop: afterStop, Socket: "unused", FrozenTicks: rigFrozen,
			MaxSampleAgeMS: rigSampleAge * spec.Period.Seconds() * 1000,
			Limits:         []controller.StopLimit{{Channel: "o5", Min: -2, Max: 2}},
		}
		f.Controller.Guard.MaxBadTicks, f.Controller.MaxPlanAge = rigBadTicks, rigPlanAge
		f.Run.HostTimeoutS, f.Run.EpisodeS, f.Run.DurationS = rigHostSilence*spec.Period.Seconds(), 0, 0
	})
	robot := haltest.NewStoppable(spec)
	r := &faultRig{t: t, robot: robot, period: spec.Period, random: rand.New(rand.NewPCG(1, 2))}
	r.twoEnds = newTwoEndsWith(t, s, robot)
	r.last = *controller.NewTick(s.Shape())
	r.planOnLosable(s)
	r.heal()
	return r
}

// heal takes every fault back.
func (r *faultRig) heal() {
	robot := r.robot
	robot.SenseErr, robot.ActErr, robot.ArmErr, robot.HaltErr, robot.DisarmErr, robot.Pressed = nil, nil, nil, nil, nil, false
	r.hostSilent, r.hostDeaf, r.planless, r.oldSamples, r.elapsed, r.spoilPlan = false, false, false, false, 0, nil
	r.gpu.SetSearch(nil)
	r.senses(func([]float32) {})
}

// senses makes the robot sense noise that a fault then spoils.
func (r *faultRig) senses(spoil func([]float32)) {
	r.robot.Observe = func(_ int, obs []float32) error {
		for i := range obs {
			obs[i] = float32(2*r.random.Float64() - 1)
		}
		spoil(obs)
		return nil
	}
}

// Tick runs a beat, and whatever of the host is alive answers it.
func (r *faultRig) Tick() error {
	if !r.hostSilent {
		r.host.HostBeat.Add(1)
	}
	elapsed := max(r.elapsed, 1)
	r.beats += elapsed - 1
	now := int64(r.beats+1) * int64(r.period)
	if r.oldSamples {
		r.robot.Now -= int64(r.period) // which Sense adds
	} else {
		r.robot.Now = now
	}
	if r.beats == 0 {
		elapsed = 0
	}
	err := r.onBeat(rtloop.Beat{Index: r.beats, Elapsed: elapsed, Deadline: now, Wake: now})
	r.beats++
	if !r.hostDeaf {
		r.takeRecords()
	}
	if !r.planless {
		r.answerWithAPlan()
	}
	return err
}

func (r *faultRig) takeRecords() {
	for {
		t, err := r.host.NextTick()
		if err != nil {
			r.t.Fatal(err)
		}
		if t == nil {
			break
		}
		r.last.CopyFrom(t)
		r.host.ReleaseTick()
	}
	for {
		if _, ok := r.host.NextRequest(); !ok {
			return
		}
	}
}

func (r *faultRig) answerWithAPlan() {
	state, fresh, err := r.host.NewestState()
	if err != nil {
		r.t.Fatal(err)
	}
	if !fresh || state.Valid == 0 {
		return
	}
	if r.spoilPlan == nil {
		if err := r.answer.Answer(state); err != nil {
			r.t.Fatal(err)
		}
		return
	}
	if _, err := r.planner.Plan(state, r.plan); err != nil {
		r.t.Fatal(err)
	}
	r.spoilPlan(r.plan)
	if err := r.host.Publish(r.plan); err != nil {
		r.t.Fatal(err)
	}
}

func (r *faultRig) ticks(n int) {
	r.t.Helper()
	for range n {
		if err := r.Tick(); err != nil {
			r.t.Fatal(err)
		}
	}
}

// say says a word as the control socket does, and runs the tick that obeys.
func (r *faultRig) say(a command) error {
	r.t.Helper()
	number := r.mailbox.request.Load()>>8 + 1
	r.mailbox.request.Store(number<<8 | uint64(a))
	if err := r.Tick(); err != nil {
		r.t.Fatal(err)
	}
	if r.mailbox.answered.Load() != number {
		r.t.Fatalf("act %d was not answered within a tick", a)
	}
	if refusal := r.mailbox.refusal.Load(); refusal != nil {
		return *refusal
	}
	return nil
}

// moving is a rig that is armed and acts.
func moving(t *testing.T, afterStop string) *faultRig {
	t.Helper()
	r := newFaultRig(t, afterStop)
	r.ticks(10)
	if r.robot.Acts+r.robot.Arms != 0 {
		t.Fatal("it was armed by nobody")
	}
	if err := r.say(commandArm); err != nil {
		t.Fatal(err)
	}
	r.ticks(20)
	if r.robot.Acts != 21 {
		t.Fatalf("%d acts in 21 armed ticks", r.robot.Acts)
	}
	return r
}

// injected is a line of the fault table: a fault, and the reaction to it.
type injected struct {
	name   string
	inject func(*faultRig)
	want   controller.Fault // the latched cause
	ticks  int              // from the fault to the stop: the tick in which the robot is halted
	ends   bool             // nothing can mend it: the run ends also where stops are held
	gone   bool             // nothing of it is left to be seen: a reset is not refused
}

const badTicks = rigBadTicks + 1

func failing(err error) func(*faultRig) {
	return func(r *faultRig) { r.robot.SenseErr = err }
}

func sensing(spoil func([]float32)) func(*faultRig) {
	return func(r *faultRig) { r.senses(spoil) }
}

func spoilingPlans(spoil func(*controller.Plan)) func(*faultRig) {
	return func(r *faultRig) { r.spoilPlan = spoil; r.answerAgain() }
}

// answerAgain publishes a plan for the state that was answered already, as a
// broken host may at any time.
func (r *faultRig) answerAgain() {
	r.spoilPlan(r.plan)
	if err := r.host.Publish(r.plan); err != nil {
		r.t.Fatal(err)
	}
}

// faultTable are the faults that can be shown tick by tick. Those that need
// processes or real time are in faults_process_test.go.
var faultTable = []injected{
	{name: "a sensor gives NaN", inject: sensing(func(o []float32) { o[1] = float32(math.NaN()) }), want: controller.FaultObs, ticks: badTicks},
	{name: "a sensor gives infinity", inject: sensing(func(o []float32) { o[2] = float32(math.Inf(-1)) }), want: controller.FaultObs, ticks: badTicks},
	{name: "a flipped bit makes a sensor's value implausible", inject: sensing(func(o []float32) { o[0] = 1e9 }), want: controller.FaultObs, ticks: badTicks},
	{name: "the device does not answer in time", inject: failing(hal.ErrTimeout), want: controller.FaultSense, ticks: badTicks},
	{name: "an answer's checksum is wrong", inject: failing(hal.ErrChecksum), want: controller.FaultSense, ticks: badTicks},
	{name: "an answer is short", inject: failing(hal.ErrShort), want: controller.FaultSense, ticks: badTicks},
	{name: "an answer is of another protocol", inject: failing(hal.ErrProtocol), want: controller.FaultSense, ticks: badTicks},
	{name: "the device reports a fault", inject: failing(hal.ErrDevice), want: controller.FaultSense, ticks: badTicks},
	{name: "the bus is stuck", inject: failing(hal.ErrBus), want: controller.FaultSense, ticks: badTicks},
	{name: "the driver's newest sample is stale", inject: failing(hal.ErrStale), want: controller.FaultSense, ticks: badTicks},
	{name: "the device is unplugged", inject: func(r *faultRig) {
		r.robot.SenseErr, r.robot.ActErr, r.robot.HaltErr = hal.ErrBus, hal.ErrBus, hal.ErrBus
	}, want: controller.FaultAct, ticks: 1},
	{name: "samples grow old", inject: func(r *faultRig) { r.oldSamples = true }, want: controller.FaultStaleSample, ticks: rigSampleAge + 1},
	{name: "all sensors freeze", inject: func(r *faultRig) {
		r.robot.Observe = func(_ int, o []float32) error { copy(o, []float32{1, 1, 1, 1, 1, 1}); return nil }
	}, want: controller.FaultFrozen, ticks: rigFrozen + 1},
	{name: "the robot tilts", inject: sensing(func(o []float32) { o[5] = 2.01 }), want: controller.FaultLimit, ticks: 1},
	{name: "the robot tilts the other way", inject: sensing(func(o []float32) { o[5] = -9 }), want: controller.FaultLimit, ticks: 1},
	{name: "the emergency stop is pressed", inject: func(r *faultRig) { r.robot.Pressed = true }, want: controller.FaultEStop, ticks: 1},
	{name: "the emergency stop is pressed while no sensor answers", inject: func(r *faultRig) { r.robot.Pressed, r.robot.SenseErr = true, hal.ErrBus }, want: controller.FaultEStop, ticks: 1},
	{name: "an actuator fails", inject: func(r *faultRig) { r.robot.ActErr = hal.ErrDevice }, want: controller.FaultAct, ticks: 1, gone: true},
	{name: "the robot's own deadman has halted it", inject: func(r *faultRig) { r.robot.Halted = true }, want: controller.FaultAct, ticks: 1, gone: true},
	{name: "an actuator fails, and so does Halt", inject: func(r *faultRig) { r.robot.ActErr, r.robot.HaltErr = hal.ErrBus, hal.ErrBus }, want: controller.FaultAct, ticks: 1},
	{name: "the planner hangs", inject: func(r *faultRig) { r.planless = true }, want: controller.FaultStalePlan, ticks: rigPlanAge + 1},
	{name: "the GPU is lost: every search fails", inject: losing(rigtest.ErrDeviceLost), want: controller.FaultStalePlan, ticks: rigPlanAge + 1},
	{name: "the GPU computes nonsense", inject: losing(nil), want: controller.FaultStalePlan, ticks: rigPlanAge + 1},
	{name: "a plan is not a number", inject: spoilingPlans(func(p *controller.Plan) { p.Z[3] = math.NaN() }), want: controller.FaultHost, ticks: 1},
	{name: "a plan is of the future", inject: spoilingPlans(func(p *controller.Plan) { p.Confirmed += 1000 }), want: controller.FaultHost, ticks: 1},
	{name: "a plan's score is not a number", inject: spoilingPlans(func(p *controller.Plan) { p.Score = math.NaN() }), want: controller.FaultHost, ticks: 1},
	{name: "the host is silent, though it plans", inject: func(r *faultRig) { r.hostSilent = true }, want: controller.FaultHost, ticks: rigHostSilence + 1},
	{name: "the host is dead", inject: func(r *faultRig) { r.hostGone.Store(true) }, want: controller.FaultHost, ticks: 1, ends: true},
	{name: "the control socket's goroutine panics", inject: func(r *faultRig) { r.mailbox.serverPanic.Store(&errServerPanic) }, want: controller.FaultPanic, ticks: 1, ends: true},
	{name: "an operator says stop", inject: func(r *faultRig) { r.mailbox.stopRequested.Store(true) }, want: controller.FaultOperator, ticks: 1, gone: true},
	{name: "the person at the keyboard presses the space bar", inject: func(r *faultRig) { (&host.Process{Link: r.host}).Key(' ') }, want: controller.FaultOperator, ticks: 1, gone: true},
}

func TestEveryInjectedFaultStopsTheRobotWithinItsTicksAndIsHeldUntilResetAndArmed(t *testing.T) {
	for _, f := range faultTable {
		if f.ends {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			r := moving(t, configs.AfterStopHold)
			halts, acts := r.robot.Halts, r.robot.Acts
			f.inject(r)
			r.expectStop(f, func() { r.ticks(1) })
			if !r.last.Flags.Has(controller.FlagStopped) || r.last.Fault != f.want || r.last.Index != r.beats-1 {
				t.Errorf("the record of tick %d (of %d) says %v, flags %b", r.last.Index, r.beats-1, r.last.Fault, r.last.Flags)
			}
			r.expectHalted(halts)
			acts = max(acts, r.robot.Acts)
			r.ticks(30)
			if err := r.say(commandReset); (err == nil) != f.gone {
				t.Errorf("a reset with the fault still there: %v", err)
			}
			r.heal()
			r.ticks(30)
			r.expectNoRestart(acts)
		})
	}
}

func TestEveryInjectedFaultHaltsTheRobotAndEndsARunThatDoesNotHold(t *testing.T) {
	for _, f := range faultTable {
		for _, afterStop := range []string{configs.AfterStopEnd, configs.AfterStopHold} {
			if afterStop == configs.AfterStopHold && !f.ends {
				continue
			}
			t.Run(f.name, func(t *testing.T) {
				r := moving(t, afterStop)
				halts := r.robot.Halts
				f.inject(r)
				var err error
				n := 0
				for err == nil && n <= f.ticks {
					err = r.Tick()
					n++
				}
				wantFault(t, err, f.want)
				if n != f.ticks {
					t.Errorf("after %d ticks, want %d", n, f.ticks)
				}
				if f.ends { // the loop's Halt is what follows
					_ = r.agent.Halt(f.want)
				}
				r.expectHalted(halts)
			})
		}
	}
}

// expectStop runs ticks until the robot is stopped.
func (r *faultRig) expectStop(f injected, tick func()) {
	r.t.Helper()
	n := 0
	for r.agent.Mode() != controller.Stopped && n <= f.ticks {
		tick()
		n++
	}
	if n != f.ticks || r.agent.Cause() != f.want {
		r.t.Errorf("%v by %q after %d ticks, want %q after %d", r.agent.Mode(), r.agent.Cause(), n, f.want, f.ticks)
	}
}

func (r *faultRig) expectHalted(halts int) {
	r.t.Helper()
	if r.robot.Halts <= halts || !r.robot.Halted {
		r.t.Errorf("Halt was called %d times", r.robot.Halts-halts)
	}
	if want := []float32{0.25, 0}; !slices.Equal(r.robot.Output, want) {
		r.t.Errorf("the output is %v, want the failsafe one %v", r.robot.Output, want)
	}
}

// expectNoRestart mends, resets and arms, and looks at what moves when.
func (r *faultRig) expectNoRestart(acts int) {
	r.t.Helper()
	if r.robot.Acts != acts {
		r.t.Fatalf("it acted %d times while stopped", r.robot.Acts-acts)
	}
	if r.agent.Mode() == controller.Stopped {
		if err := r.say(commandArm); !errors.Is(err, controller.ErrFaulted) {
			r.t.Errorf("armed without a reset: %v", err)
		}
		if err := r.say(commandReset); err != nil {
			r.t.Fatalf("reset: %v", err)
		}
	}
	r.ticks(5)
	if r.robot.Acts != acts || r.agent.Mode() != controller.Disarmed {
		r.t.Fatalf("after the reset it is %v and acted %d times", r.agent.Mode(), r.robot.Acts-acts)
	}
	if err := r.say(commandArm); err != nil {
		r.t.Fatalf("arm: %v", err)
	}
	r.ticks(1)
	if r.robot.Acts != acts+2 {
		r.t.Errorf("armed again, it acted %d times", r.robot.Acts-acts)
	}
}

// TestNoInjectedNuisanceStopsTheRobot is the other half of the table: what the
// robot bears, without a stop and without a wrong action.
func TestNoInjectedNuisanceStopsTheRobot(t *testing.T) {
	for name, nuisance := range map[string]func(*faultRig, int){
		"a bad observation, then as many good ones as it takes": func(r *faultRig, i int) {
			r.senses(func(o []float32) {
				if i%(rigBadTicks+1) != 0 {
					o[0] = float32(math.NaN())
				}
			})
		},
		"a flood of labels": func(r *faultRig, _ int) {
			for r.host.HasRoom() {
				r.labels++
				_ = r.host.Push(rewardsrc.Label{ID: r.labels, Kind: rewardsrc.Value, Tick: r.beats, Value: 1})
			}
		},
		"labels of nonsense": func(r *faultRig, i int) {
			for r.host.HasRoom() {
				r.labels++
				_ = r.host.Push(rewardsrc.Label{ID: r.labels % 3, Kind: rewardsrc.Kind(r.random.Uint32()), Tick: r.random.Uint64(), Request: r.random.Uint64(), Value: math.NaN(), Weight: -1, Undoes: r.random.Uint64(), At: int64(r.random.Uint64())})
			}
		},
		"a tick ring that nobody empties": func(r *faultRig, _ int) { r.hostDeaf = true },
		"words of the host that mean nothing": func(r *faultRig, i int) {
			r.host.Stop.Store(uint64(link.StopRobot) + 1 + uint64(i))
			r.host.Ready.Store(r.random.Uint64())
		},
		"a planner that misses every second state": func(r *faultRig, i int) { r.planless = i%2 == 0 },
		"a few missed ticks":                       func(r *faultRig, i int) { r.elapsed = 1 + uint64(i%3) },
		"a host that stalls for less than its limit": func(r *faultRig, i int) {
			r.hostSilent, r.planless = i%rigPlanAge != 0, i%rigPlanAge != 0
		},
		"an operator who arms an armed robot, and resets it": func(r *faultRig, i int) {
			r.mailbox.request.Store(r.mailbox.answered.Load()<<8 + 1<<8 | uint64([...]command{commandArm, commandReset, 77}[i%3]))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := moving(t, configs.AfterStopHold)
			acts, halts := r.robot.Acts, r.robot.Halts
			ticks := 3 * link.TickSlots(r.period)
			for i := range ticks {
				nuisance(r, i)
				r.ticks(1)
			}
			if r.robot.Acts != acts+ticks || r.robot.Halts != halts || !r.agent.Armed() {
				t.Errorf("%v (%v), %d acts in %d ticks, %d halts", r.agent.Mode(), r.agent.Cause(), r.robot.Acts-acts, ticks, r.robot.Halts-halts)
			}
			if r.robot.Refused != 0 {
				t.Errorf("the robot refused %d actions", r.robot.Refused)
			}
		})
	}
}

// TestNothingThatTheHostWritesArmsTheRobot has the host, and with it every
// reward device, write whatever it can write.
func TestNothingThatTheHostWritesArmsTheRobot(t *testing.T) {
	r := newFaultRig(t, configs.AfterStopHold)
	for i := range 3000 {
		r.host.Ready.Store(r.random.Uint64N(4))
		r.host.Ended.Store(r.random.Uint64N(20))
		if word := r.random.Uint64N(6); word != link.StopOperator {
			r.host.Stop.Store(word)
		}
		r.spoilPlan = func(p *controller.Plan) {
			for j := range p.Z {
				p.Z[j] = r.random.NormFloat64()
			}
			p.Confirmed -= min(p.Confirmed, r.random.Uint64N(40))
			p.Tick = min(p.Tick, p.Confirmed)
		}
		if r.host.HasRoom() {
			_ = r.host.Push(rewardsrc.Label{ID: uint64(i), Kind: rewardsrc.Kind(r.random.Uint32N(6)), Tick: r.beats, Request: r.random.Uint64N(9), Value: r.random.NormFloat64(), Undoes: r.random.Uint64N(uint64(i + 1))})
		}
		r.ticks(1)
		if r.agent.Armed() || r.robot.Arms+r.robot.Acts > 0 {
			t.Fatalf("tick %d: armed", i)
		}
	}
	if r.agent.Cause() != controller.FaultOperator {
		t.Errorf("the host could not stop it: %v", r.agent.Mode())
	}
}

func TestARobotWaitsForAPlanBeforeItIsArmed(t *testing.T) {
	r := newFaultRig(t, configs.AfterStopHold)
	r.planless = true
	r.ticks(5)
	if err := r.say(commandArm); !errors.Is(err, errNoPlan) {
		t.Errorf("armed without a plan: %v", err)
	}
	r.planless = false
	r.ticks(2)
	if err := r.say(commandArm); err != nil {
		t.Error(err)
	}
}

func TestARobotIsNotArmedWhileTheHostIsSilent(t *testing.T) {
	r := moving(t, configs.AfterStopHold)
	if err := r.say(commandDisarm); err != nil {
		t.Fatal(err)
	}
	r.hostSilent = true
	r.ticks(rigHostSilence + 2)
	for _, a := range []command{commandReset, commandArm} {
		if err := r.say(a); !errors.Is(err, errHostSilent) {
			t.Errorf("act %d: %v", a, err)
		}
	}
}

func TestDisarmAndStopHaveOutputsOfTheirOwn(t *testing.T) {
	r := moving(t, configs.AfterStopHold)
	if err := r.say(commandDisarm); err != nil {
		t.Fatal(err)
	}
	if r.robot.Output[0] != -0.75 || r.agent.Mode() != controller.Disarmed {
		t.Errorf("disarmed: %v, output %v", r.agent.Mode(), r.robot.Output)
	}
	if err := r.say(commandArm); err != nil {
		t.Fatal(err)
	}
	r.mailbox.stopRequested.Store(true)
	r.ticks(1)
	if r.robot.Output[0] != 0.25 || r.agent.Mode() != controller.Stopped {
		t.Errorf("stopped: %v, output %v", r.agent.Mode(), r.robot.Output)
	}
}

func TestARobotThatDoesNotDisarmIsStoppedAndTheAskerIsTold(t *testing.T) {
	r := moving(t, configs.AfterStopHold)
	r.robot.DisarmErr = hal.ErrBus
	if err := r.say(commandDisarm); !errors.Is(err, hal.ErrBus) {
		t.Errorf("the asker was told %v", err)
	}
	if r.agent.Cause() != controller.FaultAct || !errors.Is(r.mailbox.cause.Load(), hal.ErrBus) {
		t.Errorf("%v, %v", r.agent.Cause(), r.mailbox.cause.Load())
	}
}

func TestATickOfAHeldRobotAllocatesNothing(t *testing.T) {
	r := moving(t, configs.AfterStopHold)
	r.robot.Pressed = true
	r.ticks(50)
	beat := func() {
		r.host.HostBeat.Add(1)
		r.beats++
		now := int64(r.beats+1) * int64(r.period)
		r.robot.Now = now
		if err := r.onBeat(rtloop.Beat{Index: r.beats, Elapsed: 1, Deadline: now, Wake: now}); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(500, beat); n != 0 {
		t.Errorf("%v allocations a tick", n)
	}
	r.hostSilent = true
	r.ticks(rigHostSilence + 2)
	silent := func() {
		r.beats++
		_ = r.onBeat(rtloop.Beat{Index: r.beats, Elapsed: 1})
	}
	if n := testing.AllocsPerRun(100, silent); n != 0 {
		t.Errorf("%v allocations a tick with a silent host", n)
	}
}

func TestAnAutomaticRobotIsNotArmedAgainByItselfAfterAStop(t *testing.T) {
	r := newFaultRig(t, configs.AfterStopHold)
	r.autoArm = true
	r.ticks(5)
	if !r.agent.Armed() {
		t.Fatal("it did not arm itself")
	}
	r.mailbox.stopRequested.Store(true)
	r.ticks(1)
	acts := r.robot.Acts
	if err := r.say(commandReset); err != nil {
		t.Fatal(err)
	}
	r.ticks(50)
	if r.agent.Mode() != controller.Disarmed || r.robot.Acts != acts {
		t.Errorf("%v, %d acts", r.agent.Mode(), r.robot.Acts-acts)
	}
}

func TestARobotIsNotArmedBeforeThereIsAPlan(t *testing.T) {
	r := newFaultRig(t, configs.AfterStopHold)
	r.hasPlan = false // as before the planner's first answer
	if err := r.runCommand(commandArm); !errors.Is(err, errNoPlan) || r.agent.Armed() {
		t.Errorf("%v, armed %v", err, r.agent.Armed())
	}
	r.hasPlan = true
	if err := r.runCommand(commandArm); err != nil || !r.agent.Armed() {
		t.Errorf("%v, armed %v", err, r.agent.Armed())
	}
}

func TestAnActThatGotNoAnswerIsNotDoneLater(t *testing.T) {
	r := newFaultRig(t, configs.AfterStopHold)
	r.ticks(5)
	if err := r.mailbox.call(commandArm, time.Millisecond); !errors.Is(err, errNoAnswer) {
		t.Fatalf("no tick, and the answer is %v", err)
	}
	r.ticks(5) // the control thread is back: the operator may stand beside the robot by now
	if r.agent.Armed() {
		t.Fatal("armed when nobody expected it")
	}
	if err := r.say(commandArm); err != nil || !r.agent.Armed() {
		t.Errorf("%v, armed %v", err, r.agent.Armed())
	}
}

// unguarded hides a deadman.
type unguarded struct{ hal.Robot }

func TestAStrictPostureRefusesARealRobotThatArmsItselfOrHasNoDeadman(t *testing.T) {
	real := haltest.New(haltest.Spec(1, 1))
	for _, c := range []struct {
		name     string
		robot    hal.Robot
		arm      string
		external string
		refused  bool
	}{
		{"arms itself", real, configs.ArmAutomatic, "", true},
		{"an operator arms it", real, configs.ArmOperator, "", false},
		{"no deadman", unguarded{real}, configs.ArmOperator, "", true},
		{"an external deadman", unguarded{real}, configs.ArmOperator, "relay K2", false},
		{"a simulator", haltest.NewSimulator(haltest.Spec(1, 1)), configs.ArmAutomatic, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var warning bytes.Buffer
			file := configs.Default()
			file.Loop.Posture, file.Safety.Arm, file.Safety.ExternalDeadman = rtloop.Strict, c.arm, c.external
			if err := setup.CheckArming(&warning, c.robot, file); (err != nil) != c.refused {
				t.Errorf("strict: %v", err)
			}
			file.Loop.Posture = rtloop.Warn
			if err := setup.CheckArming(&warning, c.robot, file); err != nil || (warning.Len() > 0) != c.refused {
				t.Errorf("warn: %v, %q", err, warning.String())
			}
		})
	}
}
