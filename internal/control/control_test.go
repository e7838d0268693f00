package control

import (
	"errors"
	"math"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/ipc"
	"optibfm/internal/rigtest"
	"optibfm/rewardsrc"
)

func TestControl_TickAllocatesNothingInAnyStrategy(t *testing.T) {
	for _, strategy := range controller.Strategies() {
		t.Run(strategy, func(t *testing.T) {
			r := newRun(t, rigtest.NewSession(t, func(f *configs.File) {
				f.Controller.Strategy, f.Controller.Rho, f.Run.EpisodeS = strategy, 0.999, 0.5
				f.Controller.FixedZ = []float64{1, 0, 0, 0, 0, 0, 0, 0}
				f.Controller.Gate.RequestsPerMinute = 0
			}), nil)
			id := uint64(0)
			press := func(kind rewardsrc.Kind) {
				id++
				fatal.If(t, r.host.Push(rewardsrc.Label{ID: id, Tick: r.beats, Kind: kind, Value: 0.5}))
			}
			steps := func(n int) {
				for range n {
					press(rewardsrc.Value)
					if id%5 == 0 {
						press(rewardsrc.Undo)
					}
					fatal.If(t, r.Tick())
				}
			}
			steps(50) // arm, first plans, first use of all buffers
			if !r.agent.Armed() {
				t.Fatal("the robot was never armed")
			}
			wantNoAllocations(t, func() { steps(500) }) // several episodes
		})
	}
}

func TestControl_LabelReachesTheBelief(t *testing.T) {
	r := newRun(t, rigtest.NewSession(t, nil), nil)
	r.ticks(5)
	before := r.agent.Learner().Belief().Hash()
	fatal.If(t, r.host.Push(rewardsrc.Label{ID: 1, Tick: 3, Kind: rewardsrc.Value, Value: 1}))
	r.ticks(1)
	if r.agent.Learner().Belief().Hash() == before {
		t.Error("the belief did not change")
	}
}

func TestLabelRing_RefusesALabelWhenFull(t *testing.T) {
	r := newRun(t, rigtest.NewSession(t, nil), nil)
	for i := range ipc.LabelSlots {
		if !r.host.HasRoom() {
			t.Fatalf("no room for label %d of %d", i, ipc.LabelSlots)
		}
		fatal.If(t, r.host.Push(rewardsrc.Label{ID: uint64(i + 1)}))
	}
	if err := r.host.Push(rewardsrc.Label{ID: 99}); r.host.HasRoom() || !errors.Is(err, ipc.ErrLabelRing) {
		t.Errorf("room: %t, push: %v", r.host.HasRoom(), err)
	}
}

func TestControl_HostEndsTheRun(t *testing.T) {
	r := newRun(t, rigtest.NewSession(t, nil), nil)
	r.ticks(1)
	r.host.Stop.Store(ipc.StopOperator)
	errtest.Is(t, r.Tick(), errDone, "after the stop")
}

func TestControl_InvalidPlanDisarmsAnAutomaticRun(t *testing.T) {
	r := newRun(t, rigtest.NewSession(t, nil), nil)
	r.ticks(5)
	r.plan.Z[0] = math.NaN()
	fatal.If(t, r.host.Publish(r.plan))
	wantFault(t, r.silentBeat(), controller.FaultHost)
	if r.agent.Armed() {
		t.Error("still armed")
	}
}

func TestControl_FailedArmOrResetEndsTheRun(t *testing.T) {
	failed := errors.New("the brake is on")
	for want, inject := range map[controller.Fault]func(*faultyRobot){
		controller.FaultAct:   func(r *faultyRobot) { r.arm = func() error { return failed } },
		controller.FaultSense: func(r *faultyRobot) { r.reset = func() error { return failed } },
	} {
		robot, r := newFaulty(t, nil)
		inject(robot)
		_, err := r.ticksUntilFault(10)
		if wantFault(t, err, want); !errors.Is(err, failed) {
			t.Errorf("the error does not wrap the robot's: %v", err)
		}
	}
}

func TestCheckRealTime_RefusesAnotherPeriod(t *testing.T) {
	robot, r := newFaulty(t, nil)
	errtest.Nil(t, checkRealTime(robot, r.session.File), "the same period")
	r.session.File.Loop.PeriodMS++
	errtest.NotNil(t, checkRealTime(robot, r.session.File), "another period was accepted")
}

// endlessSource always has a label and counts what happens to it.
type endlessSource struct {
	label                        rewardsrc.Label
	polls, acknowledged, refused int
}

func (*endlessSource) Ask(rewardsrc.Request)           {}
func (*endlessSource) Halt() error                     { return nil }
func (s *endlessSource) Acknowledge(rewardsrc.Label)   { s.acknowledged++ }
func (s *endlessSource) Refuse(rewardsrc.Label, error) { s.refused++ }

func (s *endlessSource) Poll(dst []rewardsrc.Label) int {
	s.polls++
	dst[0] = s.label
	return 1
}

func TestHost_AcknowledgesNoLabelBeyondTheRingOrTheEnd(t *testing.T) {
	r := newRun(t, rigtest.NewSession(t, nil), nil)
	source := &endlessSource{label: rewardsrc.Label{
		Kind: rewardsrc.Value, Value: 1, Tick: rewardsrc.NoTick, At: rewardsrc.Monotonic(),
	}}
	h := r.newIntake(source)
	h.TakeLabels()
	if source.acknowledged != ipc.LabelSlots || source.refused != 0 {
		t.Errorf("%d acknowledged, %d refused", source.acknowledged, source.refused)
	}
	r.ticks(1)
	r.link.Ended.Store(1)
	if h.TakeLabels(); source.acknowledged != ipc.LabelSlots {
		t.Errorf("%d acknowledged after the end", source.acknowledged-ipc.LabelSlots)
	}
}

func TestHost_TakesABoundedNumberOfInvalidLabelsAtATime(t *testing.T) {
	r := newRun(t, rigtest.NewSession(t, nil), nil)
	source := &endlessSource{label: rewardsrc.Label{Kind: rewardsrc.Value, At: -1}}
	if r.newIntake(source).TakeLabels(); source.polls != ipc.LabelSlots {
		t.Errorf("%d labels taken, want %d", source.polls, ipc.LabelSlots)
	}
}

func TestTickSlots_HoldTenSeconds(t *testing.T) {
	for period, want := range map[time.Duration]int{
		time.Second: 256, 50 * time.Millisecond: 256, 20 * time.Millisecond: 512, time.Millisecond: 16384,
		time.Nanosecond: 65536, 0: 65536,
	} {
		if got := ipc.TickSlots(period); got != want {
			t.Errorf("%v: %d slots, want %d", period, got, want)
		}
	}
}
