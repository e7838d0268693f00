package control

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/hal/haltest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/host"
	"optibfm/internal/ipc"
	"optibfm/internal/rigtest"
	"optibfm/rewardsrc"
	"optibfm/rtloop"
)

// faultRun is a run on simulated time of a robot that cannot be reset and that an operator arms.
type faultRun struct {
	*testRun
	robot     *haltest.Stoppable
	gpu       *rigtest.FaultyModel // the planner searches with it
	answering *host.Planner
	period    time.Duration
	last      controller.Tick // newest record
	labels    uint64
	random    *rand.Rand

	// Faults that a test switches on.
	hostSilent, hostDeaf, planless, oldSamples bool
	elapsed                                    uint64 // periods to the next tick; 0: 1
	spoilPlan                                  func(*controller.Plan)
}

// Limits of a faultRun.
const (
	sampleAgeLimit    = 6  // periods
	frozenLimit       = 10 // ticks
	planAgeLimit      = 25 // ticks
	badTickLimit      = 3
	hostSilenceLimit  = 50 // ticks
	failsafeOutput    = 0.25
	disarmedOutput    = -0.75
	ticksToBadStop    = badTickLimit + 1
	ticksToPlanStop   = planAgeLimit + 1
	ticksToSilentStop = hostSilenceLimit + 1
)

func newFaultRun(t *testing.T, afterStop string) *faultRun {
	t.Helper()
	spec := haltest.Spec(6, 2)
	for i := range spec.Obs {
		spec.Obs[i].Min, spec.Obs[i].Max = -10, 10
	}
	spec.Action[0].Failsafe, spec.Action[0].Disarmed = failsafeOutput, disarmedOutput
	s := rigtest.NewSession(t, func(f *configs.File) {
		f.Safety = configs.Safety{
			Arm: configs.ArmOperator, AfterStop: afterStop, Socket: "unused", FrozenTicks: frozenLimit,
			MaxSampleAgeMS: sampleAgeLimit * spec.Period.Seconds() * 1000,
			Limits:         []controller.StopLimit{{Channel: "o5", Min: -2, Max: 2}},
		}
		f.Controller.Guard.MaxBadTicks, f.Controller.MaxPlanAge = badTickLimit, planAgeLimit
		f.Run.HostTimeoutS, f.Run.EpisodeS, f.Run.DurationS = hostSilenceLimit*spec.Period.Seconds(), 0, 0
	})
	robot := haltest.NewStoppable(spec)
	r := &faultRun{
		testRun: newRun(t, s, robot), robot: robot, period: spec.Period, last: *controller.NewTick(s.Shape()),
		random: rand.New(rand.NewPCG(1, 2)),
	}
	network, err := s.Model.Evaluator(s.File)
	fatal.If(t, err)
	r.gpu = &rigtest.FaultyModel{Model: network}
	r.planner, err = controller.NewPlanner(s.File.Controller, r.gpu)
	fatal.If(t, err)
	r.answering = &host.Planner{
		Link: r.host, Planner: r.planner, Plan: r.plan, Strategy: s.File.Controller.Strategy, Every: math.MaxUint64 / 2,
		Plans: make(chan flightlog.Plan), Snapshots: make(chan flightlog.Snapshot),
		Events: make(chan flightlog.Event, 8),
	}
	r.repair()
	return r
}

// repair removes every fault.
func (r *faultRun) repair() {
	robot := r.robot
	robot.SenseErr, robot.ActErr, robot.ArmErr, robot.HaltErr, robot.DisarmErr = nil, nil, nil, nil, nil
	robot.Pressed = false
	r.hostSilent, r.hostDeaf, r.planless, r.oldSamples, r.elapsed, r.spoilPlan = false, false, false, false, 0, nil
	r.gpu.SetSearch(nil)
	r.sense(func([]float32) {})
}

// sense makes the robot sense noise, changed by spoil.
func (r *faultRun) sense(spoil func([]float32)) {
	r.robot.Observe = func(_ int, obs []float32) error {
		for i := range obs {
			obs[i] = float32(2*r.random.Float64() - 1)
		}
		spoil(obs)
		return nil
	}
}

// Tick runs a beat, which the host answers as far as no fault keeps it from that.
func (r *faultRun) Tick() error {
	if !r.hostSilent {
		r.host.HostBeat.Add(1)
	}
	elapsed := max(r.elapsed, 1)
	r.beats += elapsed - 1
	now := int64(r.beats+1) * int64(r.period)
	if r.oldSamples {
		r.robot.Now -= int64(r.period) // Sense adds a period
	} else {
		r.robot.Now = now
	}
	if r.beats == 0 {
		elapsed = 0
	}
	err := r.onBeat(rtloop.Beat{Index: r.beats, Elapsed: elapsed, Deadline: now, Wake: now})
	r.beats++
	if !r.hostDeaf {
		r.takeRecords(&r.last)
		for ok := true; ok; {
			_, ok = r.host.NextRequest()
		}
	}
	if !r.planless {
		r.answer()
	}
	return err
}

// answer plans for the newest state.
func (r *faultRun) answer() {
	state, fresh, err := r.host.NewestState()
	fatal.If(r.t, err)
	if !fresh || state.Valid == 0 {
		return
	}
	if r.spoilPlan == nil {
		fatal.If(r.t, r.answering.Answer(state))
		return
	}
	fatal.If(r.t, errtest.Of(r.planner.Plan(state, r.plan)))
	r.publishSpoiled()
}

func (r *faultRun) publishSpoiled() {
	r.spoilPlan(r.plan)
	fatal.If(r.t, r.host.Publish(r.plan))
}

func (r *faultRun) ticks(n int) {
	r.t.Helper()
	for range n {
		fatal.If(r.t, r.Tick())
	}
}

// command gives a command as the control socket does, and runs the tick that executes it.
func (r *faultRun) command(a command) error {
	r.t.Helper()
	number := r.mailbox.request.Load()>>8 + 1
	r.mailbox.request.Store(number<<8 | uint64(a))
	r.ticks(1)
	if r.mailbox.answered.Load() != number {
		r.t.Fatalf("command %d was not answered within a tick", a)
	}
	if refusal := r.mailbox.refusal.Load(); refusal != nil {
		return *refusal
	}
	return nil
}

// newMoving returns a run that is armed and acts.
func newMoving(t *testing.T, afterStop string) *faultRun {
	t.Helper()
	r := newFaultRun(t, afterStop)
	r.ticks(10)
	if r.robot.Acts+r.robot.Arms != 0 {
		t.Fatal("armed without a command")
	}
	fatal.If(t, r.command(commandArm))
	r.ticks(20)
	if r.robot.Acts != 21 {
		t.Fatalf("%d acts in 21 armed ticks", r.robot.Acts)
	}
	return r
}

// injection is a fault and the expected reaction.
type injection struct {
	name   string
	inject func(*faultRun)
	want   controller.Fault // latched cause
	ticks  int              // from the fault to the stop: Halt is in the last one
	after  aftermath
}

// aftermath is the state after a fault and the stop.
type aftermath int

const (
	present aftermath = iota // a reset is refused until the fault is repaired
	gone                     // a reset succeeds
	ends                     // the run ends, also if stops are held
)

func senseError(name string, err error) injection {
	return injection{name, func(r *faultRun) { r.robot.SenseErr = err }, controller.FaultSense, ticksToBadStop, present}
}

func badValue(name string, channel int, value float64, want controller.Fault, ticks int) injection {
	return injection{name, func(r *faultRun) {
		r.sense(func(obs []float32) { obs[channel] = float32(value) })
	}, want, ticks, present}
}

func badPlan(name string, spoil func(*controller.Plan)) injection {
	return injection{name, func(r *faultRun) {
		r.spoilPlan = spoil
		r.publishSpoiled() // a broken host may publish again for the same state
	}, controller.FaultHost, 1, present}
}

func actError(name string, ticks int, after aftermath, inject func(*haltest.Stoppable)) injection {
	return injection{name, func(r *faultRun) { inject(r.robot) }, controller.FaultAct, ticks, after}
}

func badSearch(name string, err error) injection {
	return injection{name, func(r *faultRun) {
		r.gpu.SetSearch(func() (int, float32, error) { return 0, float32(math.NaN()), err })
	}, controller.FaultStalePlan, ticksToPlanStop, present}
}

// injections lists the faults that need neither processes nor real time.
var injections = []injection{
	badValue("sensor: NaN", 1, math.NaN(), controller.FaultObs, ticksToBadStop),
	badValue("sensor: infinity", 2, math.Inf(-1), controller.FaultObs, ticksToBadStop),
	badValue("sensor: flipped bit, implausible value", 0, 1e9, controller.FaultObs, ticksToBadStop),
	badValue("robot tilts", 5, 2.01, controller.FaultLimit, 1),
	badValue("robot tilts the other way", 5, -9, controller.FaultLimit, 1),
	senseError("device: no answer in time", hal.ErrTimeout),
	senseError("device: wrong checksum", hal.ErrChecksum),
	senseError("device: short answer", hal.ErrShort),
	senseError("device: another protocol", hal.ErrProtocol),
	senseError("device: reports a fault", hal.ErrDevice),
	senseError("device: stuck bus", hal.ErrBus),
	senseError("device: stale sample", hal.ErrStale),
	actError("device: unplugged", 1, present, func(r *haltest.Stoppable) {
		r.SenseErr, r.ActErr, r.HaltErr = hal.ErrBus, hal.ErrBus, hal.ErrBus
	}),
	actError("actuator fails", 1, gone, func(r *haltest.Stoppable) { r.ActErr = hal.ErrDevice }),
	actError("actuator and Halt fail", 1, present, func(r *haltest.Stoppable) {
		r.ActErr, r.HaltErr = hal.ErrBus, hal.ErrBus
	}),
	actError("deadman of the robot", 1, gone, func(r *haltest.Stoppable) { r.Halted = true }),
	{"samples grow old", func(r *faultRun) { r.oldSamples = true },
		controller.FaultStaleSample, sampleAgeLimit + 1, present},
	{"all sensors freeze", func(r *faultRun) {
		r.robot.Observe = func(_ int, obs []float32) error { copy(obs, []float32{1, 1, 1, 1, 1, 1}); return nil }
	}, controller.FaultFrozen, frozenLimit + 1, present},
	{"emergency stop", func(r *faultRun) { r.robot.Pressed = true }, controller.FaultEStop, 1, present},
	{"emergency stop without sensors", func(r *faultRun) {
		r.robot.Pressed, r.robot.SenseErr = true, hal.ErrBus
	}, controller.FaultEStop, 1, present},
	{"planner hangs", func(r *faultRun) { r.planless = true }, controller.FaultStalePlan, ticksToPlanStop, present},
	badSearch("GPU lost", rigtest.ErrDeviceLost),
	badSearch("GPU computes NaN", nil),
	badPlan("plan: NaN", func(p *controller.Plan) { p.Z[3] = math.NaN() }),
	badPlan("plan: of the future", func(p *controller.Plan) { p.Confirmed += 1000 }),
	badPlan("plan: score NaN", func(p *controller.Plan) { p.Score = math.NaN() }),
	{"host silent, but plans", func(r *faultRun) { r.hostSilent = true },
		controller.FaultHost, ticksToSilentStop, present},
	{"host dead", func(r *faultRun) { r.hostGone.Store(true) }, controller.FaultHost, 1, ends},
	{"panic in the socket goroutine", func(r *faultRun) {
		r.mailbox.serverPanic.Store(&errServerPanic)
	}, controller.FaultPanic, 1, ends},
	{"panic of a driver's Warning", func(r *faultRun) {
		end := r.repeat(time.Millisecond, func() { panic("defect") })
		for r.mailbox.serverPanic.Load() == nil {
			time.Sleep(time.Millisecond)
		}
		end()
	}, controller.FaultPanic, 1, ends},
	{"stop command", func(r *faultRun) { r.mailbox.stopRequested.Store(true) }, controller.FaultOperator, 1, gone},
	{"space bar", func(r *faultRun) { (&host.Process{Link: r.host}).Key(' ') }, controller.FaultOperator, 1, gone},
}

func TestFaults_StopTheRobotUntilResetAndArm(t *testing.T) {
	for _, f := range injections {
		if f.after == ends {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			r := newMoving(t, configs.AfterStopHold)
			halts, acts := r.robot.Halts, r.robot.Acts
			f.inject(r)
			n := 0
			for ; r.agent.Mode() != controller.Stopped && n <= f.ticks; n++ {
				r.ticks(1)
			}
			if n != f.ticks || r.agent.Cause() != f.want {
				t.Errorf("%v after %d ticks, want %v after %d", r.agent.Cause(), n, f.want, f.ticks)
			}
			if !r.last.Flags.Has(controller.FlagStopped) || r.last.Fault != f.want || r.last.Index != r.beats-1 {
				t.Errorf("record of tick %d of %d: %v, flags %b", r.last.Index, r.beats-1, r.last.Fault, r.last.Flags)
			}
			r.wantHalted(halts)
			acts = max(acts, r.robot.Acts)
			r.ticks(30)
			if err := r.command(commandReset); (err == nil) != (f.after == gone) {
				t.Errorf("reset before the repair: %v", err)
			}
			r.repair()
			r.ticks(30)
			r.wantRestartOnlyAfterArm(acts)
		})
	}
}

func TestFaults_EndARunThatDoesNotHoldStops(t *testing.T) {
	for _, f := range injections {
		for _, afterStop := range []string{configs.AfterStopEnd, configs.AfterStopHold} {
			if afterStop == configs.AfterStopHold && f.after != ends {
				continue
			}
			t.Run(f.name+"/"+afterStop, func(t *testing.T) {
				r := newMoving(t, afterStop)
				halts := r.robot.Halts
				f.inject(r)
				var err error
				n := 0
				for ; err == nil && n <= f.ticks; n++ {
					err = r.Tick()
				}
				wantFault(t, err, f.want)
				if n != f.ticks {
					t.Errorf("after %d ticks, want %d", n, f.ticks)
				}
				if f.after == ends {
					_ = r.agent.Halt(f.want) // as the loop does
				}
				r.wantHalted(halts)
			})
		}
	}
}

func (r *faultRun) wantHalted(before int) {
	r.t.Helper()
	if r.robot.Halts <= before || !r.robot.Halted {
		r.t.Errorf("%d calls of Halt", r.robot.Halts-before)
	}
	if want := []float32{failsafeOutput, 0}; !slices.Equal(r.robot.Output, want) {
		r.t.Errorf("output %v, want the failsafe %v", r.robot.Output, want)
	}
}

// wantRestartOnlyAfterArm resets and arms the repaired robot.
func (r *faultRun) wantRestartOnlyAfterArm(acts int) {
	r.t.Helper()
	if r.robot.Acts != acts {
		r.t.Fatalf("%d acts while stopped", r.robot.Acts-acts)
	}
	if r.agent.Mode() == controller.Stopped {
		errtest.Is(r.t, r.command(commandArm), controller.ErrFaulted, "armed without a reset")
		fatal.If(r.t, r.command(commandReset))
	}
	r.ticks(5)
	if r.robot.Acts != acts || r.agent.Mode() != controller.Disarmed {
		r.t.Fatalf("after the reset: %v, %d acts", r.agent.Mode(), r.robot.Acts-acts)
	}
	fatal.If(r.t, r.command(commandArm))
	r.ticks(1)
	if r.robot.Acts != acts+2 {
		r.t.Errorf("armed again: %d acts", r.robot.Acts-acts)
	}
}

// push fills the label ring.
func (r *faultRun) push(label func() rewardsrc.Label) {
	for r.host.HasRoom() {
		r.labels++
		_ = r.host.Push(label())
	}
}

// disturbances are events that the robot must tolerate without a stop and without a wrong action.
var disturbances = map[string]func(*faultRun, int){
	"bad observations, but not too many in a row": func(r *faultRun, i int) {
		r.sense(func(obs []float32) {
			if i%(badTickLimit+1) != 0 {
				obs[0] = float32(math.NaN())
			}
		})
	},
	"flood of labels": func(r *faultRun, _ int) {
		r.push(func() rewardsrc.Label {
			return rewardsrc.Label{ID: r.labels, Kind: rewardsrc.Value, Tick: r.beats, Value: 1}
		})
	},
	"random labels": func(r *faultRun, _ int) {
		r.push(func() rewardsrc.Label {
			return rewardsrc.Label{
				ID: r.labels % 3, Kind: rewardsrc.Kind(r.random.Uint32()), Tick: r.random.Uint64(),
				Request: r.random.Uint64(), Value: math.NaN(), Weight: -1, Undoes: r.random.Uint64(),
				At: int64(r.random.Uint64()),
			}
		})
	},
	"full tick ring": func(r *faultRun, _ int) { r.hostDeaf = true },
	"random words of the host": func(r *faultRun, i int) {
		r.host.Stop.Store(uint64(ipc.StopRobot) + 1 + uint64(i))
		r.host.Ready.Store(r.random.Uint64())
	},
	"planner misses every second state": func(r *faultRun, i int) { r.planless = i%2 == 0 },
	"few missed ticks":                  func(r *faultRun, i int) { r.elapsed = 1 + uint64(i%3) },
	"host stalls for less than its limit": func(r *faultRun, i int) {
		r.hostSilent, r.planless = i%planAgeLimit != 0, i%planAgeLimit != 0
	},
	"commands for an armed robot": func(r *faultRun, i int) {
		a := [...]command{commandArm, commandReset, 77}[i%3]
		r.mailbox.request.Store(r.mailbox.answered.Load()<<8 + 1<<8 | uint64(a))
	},
}

func TestFaults_ToleratedDisturbancesDoNotStopTheRobot(t *testing.T) {
	if testing.Short() {
		t.Skip("computes on one goroutine")
	}
	for name, disturb := range disturbances {
		t.Run(name, func(t *testing.T) {
			r := newMoving(t, configs.AfterStopHold)
			acts, halts := r.robot.Acts, r.robot.Halts
			ticks := 3 * ipc.TickSlots(r.period)
			for i := range ticks {
				disturb(r, i)
				r.ticks(1)
			}
			if r.robot.Acts != acts+ticks || r.robot.Halts != halts || !r.agent.Armed() || r.robot.Refused != 0 {
				t.Errorf("%v (%v), %d acts in %d ticks, %d halts, %d refused actions", r.agent.Mode(), r.agent.Cause(),
					r.robot.Acts-acts, ticks, r.robot.Halts-halts, r.robot.Refused)
			}
		})
	}
}

// The host, and with it every reward device, writes random values to the segment.
func TestControl_HostCannotArmTheRobot(t *testing.T) {
	r := newFaultRun(t, configs.AfterStopHold)
	for i := range 3000 {
		r.host.Ready.Store(r.random.Uint64N(4))
		r.host.Ended.Store(r.random.Uint64N(20))
		if word := r.random.Uint64N(6); word != ipc.StopOperator {
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
			_ = r.host.Push(rewardsrc.Label{
				ID: uint64(i), Kind: rewardsrc.Kind(r.random.Uint32N(6)), Tick: r.beats, Request: r.random.Uint64N(9),
				Value: r.random.NormFloat64(), Undoes: r.random.Uint64N(uint64(i + 1)),
			})
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

func TestCommands_ArmNeedsAPlan(t *testing.T) {
	r := newFaultRun(t, configs.AfterStopHold)
	r.planless = true
	r.ticks(5)
	if err := r.command(commandArm); !errors.Is(err, errNoPlan) || r.agent.Armed() {
		t.Errorf("without a plan: %v, armed %t", err, r.agent.Armed())
	}
	r.planless = false
	r.ticks(2)
	if err := r.command(commandArm); err != nil || !r.agent.Armed() {
		t.Errorf("with a plan: %v, armed %t", err, r.agent.Armed())
	}
}

func TestCommands_ArmAndResetNeedTheHost(t *testing.T) {
	r := newMoving(t, configs.AfterStopHold)
	fatal.If(t, r.command(commandDisarm))
	r.hostSilent = true
	r.ticks(hostSilenceLimit + 2)
	for _, a := range []command{commandReset, commandArm} {
		errtest.Is(t, r.command(a), errHostSilent, "command ", a)
	}
}

func TestCommands_DisarmAndStopSetTheirOutputs(t *testing.T) {
	r := newMoving(t, configs.AfterStopHold)
	fatal.If(t, r.command(commandDisarm))
	if r.robot.Output[0] != disarmedOutput || r.agent.Mode() != controller.Disarmed {
		t.Errorf("disarmed: %v, output %v", r.agent.Mode(), r.robot.Output)
	}
	fatal.If(t, r.command(commandArm))
	r.mailbox.stopRequested.Store(true)
	r.ticks(1)
	if r.robot.Output[0] != failsafeOutput || r.agent.Mode() != controller.Stopped {
		t.Errorf("stopped: %v, output %v", r.agent.Mode(), r.robot.Output)
	}
}

// reusedError is an error whose memory a driver uses for the next fault.
type reusedError struct{ device string }

func (e *reusedError) Error() string { return e.device + " did not answer" }

func TestFaults_FirstCauseKeepsItsText(t *testing.T) {
	r := newMoving(t, configs.AfterStopHold)
	reused := &reusedError{"elbow"}
	r.robot.SenseErr = reused
	r.ticks(badTickLimit + 2)
	reused.device = "shoulder" // the power is off
	r.ticks(3)
	cause := r.mailbox.cause.Load()
	if cause == nil || !errors.Is(cause, reused) {
		t.Fatalf("the cause is %v", cause)
	}
	errtest.Contains(t, cause, "elbow did not answer")
}

func TestCommands_FailedDisarmStopsTheRobot(t *testing.T) {
	r := newMoving(t, configs.AfterStopHold)
	r.robot.DisarmErr = hal.ErrBus
	errtest.Is(t, r.command(commandDisarm), hal.ErrBus, "the reply is")
	if r.agent.Cause() != controller.FaultAct || !errors.Is(r.mailbox.cause.Load(), hal.ErrBus) {
		t.Errorf("%v, %v", r.agent.Cause(), r.mailbox.cause.Load())
	}
}

func TestCommands_AutomaticRobotIsNotArmedAgainAfterAStop(t *testing.T) {
	r := newFaultRun(t, configs.AfterStopHold)
	r.autoArm = true
	r.ticks(5)
	if !r.agent.Armed() {
		t.Fatal("it was not armed")
	}
	r.mailbox.stopRequested.Store(true)
	r.ticks(1)
	acts := r.robot.Acts
	fatal.If(t, r.command(commandReset))
	r.ticks(50)
	if r.agent.Mode() != controller.Disarmed || r.robot.Acts != acts {
		t.Errorf("%v, %d acts", r.agent.Mode(), r.robot.Acts-acts)
	}
}

func TestCommands_AutomaticRobotIsNotArmedAfterAnEarlierStop(t *testing.T) {
	r := newFaultRun(t, configs.AfterStopHold)
	r.autoArm, r.planless = true, true
	r.ticks(5)
	r.mailbox.stopRequested.Store(true)
	r.ticks(1)
	fatal.If(t, r.command(commandReset))
	r.planless = false
	r.ticks(50)
	if !r.hasPlan || r.agent.Mode() != controller.Disarmed {
		t.Errorf("plan %v, %v", r.hasPlan, r.agent.Mode())
	}
}

func TestCommands_AutomaticRobotIsRefusedOnce(t *testing.T) {
	r := newFaultRun(t, configs.AfterStopHold)
	r.autoArm, r.robot.ArmErr = true, controller.ErrPosition
	r.ticks(5)
	if refusal := r.refusal.Swap(nil); refusal == nil || !errors.Is(*refusal, controller.ErrPosition) {
		t.Fatalf("reported %v", refusal)
	}
	r.robot.ArmErr = nil // a person has moved the joint
	r.ticks(50)
	if r.agent.Mode() != controller.Disarmed {
		t.Errorf("it is %v", r.agent.Mode())
	}
	if err := r.command(commandArm); err != nil || !r.agent.Armed() {
		t.Errorf("%v, armed %v", err, r.agent.Armed())
	}
}

// A caller hears that a command was cancelled if and only if it never runs.
func TestCommands_BegunCommandIsNotCancelled(t *testing.T) {
	var m commandMailbox
	var ran, cancelled int
	for i := range 200 {
		err := make(chan error)
		go func() { err <- m.call(commandArm, time.Duration(i%3)*time.Millisecond) }()
		begins, number := false, uint64(0)
		for over := false; !over; {
			var a command
			number, a = m.next()
			begins = begins || a == commandArm
			select {
			case got := <-err:
				if over = true; begins != errors.Is(got, errStillRuns) || begins == errors.Is(got, errNoAnswer) {
					t.Fatalf("begun %v, and the reply is %v", begins, got)
				}
			default:
			}
			if i%2 == 0 {
				time.Sleep(2 * time.Millisecond) // the control thread is late
			}
		}
		if begins {
			ran++
			m.reply(number, nil)
		} else {
			cancelled++
		}
	}
	if _, a := m.next(); a != commandNone {
		t.Errorf("command %d is left", a)
	}
	if ran == 0 || cancelled == 0 {
		t.Errorf("%d ran, %d were cancelled", ran, cancelled)
	}
}

func TestCommands_UnansweredCommandIsCancelled(t *testing.T) {
	r := newFaultRun(t, configs.AfterStopHold)
	r.ticks(5)
	if err := r.mailbox.call(commandArm, time.Millisecond); !errors.Is(err, errNoAnswer) {
		t.Fatalf("no tick, and the reply is %v", err)
	}
	r.ticks(5)
	if r.agent.Armed() {
		t.Fatal("armed after the timeout")
	}
	if err := r.command(commandArm); err != nil || !r.agent.Armed() {
		t.Errorf("%v, armed %v", err, r.agent.Armed())
	}
}

func TestControl_TickOfAHeldStopAllocatesNothing(t *testing.T) {
	r := newMoving(t, configs.AfterStopHold)
	r.robot.Pressed = true
	r.ticks(50)
	beats := func(n int) func() {
		return func() {
			for range n {
				r.beats++
				now := int64(r.beats+1) * int64(r.period)
				r.robot.Now = now
				fatal.If(t, r.onBeat(rtloop.Beat{Index: r.beats, Elapsed: 1, Deadline: now, Wake: now}))
			}
		}
	}
	r.host.HostBeat.Add(1)
	wantNoAllocations(t, beats(hostSilenceLimit/3))
	r.hostSilent = true
	r.ticks(hostSilenceLimit + 2)
	wantNoAllocations(t, beats(100))
}

func TestControl_LostGPUIsReportedOnceAndMayReturn(t *testing.T) {
	r := newMoving(t, configs.AfterStopHold)
	badSearch("", rigtest.ErrDeviceLost).inject(r)
	r.ticks(5 * planAgeLimit)
	if len(r.answering.Events) != 1 {
		t.Fatalf("%d events", len(r.answering.Events))
	}
	e := <-r.answering.Events
	if e.Level != flightlog.Error || !strings.Contains(e.Text, rigtest.ErrDeviceLost.Error()) {
		t.Errorf("the event is %+v", e)
	}
	if r.agent.Cause() != controller.FaultStalePlan || r.last.Index != r.beats-1 {
		t.Errorf("stopped by %v; the newest record is of tick %d of %d", r.agent.Cause(), r.last.Index, r.beats-1)
	}
	errtest.Is(t, r.command(commandReset), controller.ErrPresent, "reset without a planner")
	r.repair()
	r.ticks(2)
	fatal.If(t, errors.Join(r.command(commandReset), r.command(commandArm)))
	acts := r.robot.Acts
	r.ticks(10)
	if r.robot.Acts != acts+10 {
		t.Errorf("%d acts in 10 ticks", r.robot.Acts-acts)
	}
}
