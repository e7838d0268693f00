package episodes_test

import (
	"errors"
	"slices"
	"testing"

	"optibfm/controller"
	"optibfm/episodes"
	"optibfm/hal"
	"optibfm/hal/haltest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// resets records the seeds of its episodes.
type resets struct {
	seeds []uint64
	err   error
}

func (r *resets) Reset(seed uint64) error {
	r.seeds = append(r.seeds, seed)
	return r.err
}

func TestEpisodes_HaveStepsAndSeeds(t *testing.T) {
	robot := &resets{}
	e := episodes.Episodes{Robot: robot, Steps: 3, Limit: 2, Seed: 7}
	tick := controller.NewTick(controller.Shape{Obs: 1, Action: 1, Latent: 1})
	var steps []uint32
	var starts, ends int
	for {
		over, err := e.Begin(tick)
		fatal.If(t, err)
		if over {
			break
		}
		steps = append(steps, tick.Step)
		if tick.Flags.Has(controller.FlagEpisodeStart) {
			starts++
		}
		if tick.Flags.Has(controller.FlagEpisodeEnd) {
			ends++
		}
		tick.Flags |= controller.FlagArmed
		e.End(tick)
	}
	if !slices.Equal(steps, []uint32{0, 1, 2, 3, 0, 1, 2, 3}) || starts != 2 || ends != 2 {
		t.Errorf("steps %v, %d starts, %d ends", steps, starts, ends)
	}
	want := []uint64{episodes.EpisodeSeed(7, 0), episodes.EpisodeSeed(7, 1)}
	if !slices.Equal(robot.seeds, want) || want[0] == want[1] || max(want[0], want[1]) >= 1<<32 {
		t.Errorf("seeds %v, want %v", robot.seeds, want)
	}
}

func TestEpisodes_CountNoStepsWhileDisarmed(t *testing.T) {
	e := episodes.Episodes{Robot: &resets{}, Steps: 3}
	tick := controller.NewTick(controller.Shape{Obs: 1, Action: 1, Latent: 1})
	for range 5 {
		if _, err := e.Begin(tick); err != nil || tick.Step != 0 {
			t.Fatalf("step %d: %v", tick.Step, err)
		}
		e.End(tick)
	}
}

func TestResetter_NeedsReset(t *testing.T) {
	sim := haltest.NewSimulator(haltest.Spec(2, 1))
	if episodes.Resetter(sim) == nil {
		t.Error("Resetter refuses a simulator")
	}
	if episodes.Resetter(struct{ hal.Robot }{sim}) != nil {
		t.Error("Resetter accepts a robot without Reset")
	}
	if episodes.Resetter(remote{sim}) != nil {
		t.Error("Resetter ignores CanReset")
	}
}

type remote struct{ *haltest.Simulator }

func (remote) CanReset() bool { return false }

// silent is a source without an operator.
type silent struct{}

func (silent) Ask(rewardsrc.Request)      {}
func (silent) Poll([]rewardsrc.Label) int { return 0 }
func (silent) Halt() error                { return nil }

func newStepper(t *testing.T, robot *haltest.Simulator, resetter hal.Resetter) *episodes.Stepper {
	t.Helper()
	network, err := tflitetest.Bundle(tflite.Dims{Obs: 2, Action: 1, Latent: 3, Ensemble: 2}, 1).NewNetwork()
	fatal.If(t, err)
	cfg := controller.DefaultConfig()
	cfg.Strategy = controller.Random
	planner, err := controller.NewPlanner(cfg, network)
	fatal.If(t, err)
	agent, err := controller.NewAgent(cfg, controller.Parts{
		Robot: robot, Source: silent{}, Model: network, Plans: controller.NewLockstep(planner),
	})
	fatal.If(t, err)
	fatal.If(t, agent.Arm(0))
	return &episodes.Stepper{
		Agent: agent, Period: robot.Spec().Period, Episodes: episodes.Episodes{Robot: resetter, Steps: 4, Limit: 2},
	}
}

func TestStepper_TicksArePeriodsApart(t *testing.T) {
	robot := haltest.NewSimulator(haltest.Spec(2, 1))
	s := newStepper(t, robot, robot)
	tick := controller.NewTick(s.Agent.Shape())
	for n := uint64(0); ; n++ {
		ran, err := s.Step(tick)
		fatal.If(t, err)
		if !ran {
			if n != 10 || s.Index() != 10 {
				t.Errorf("%d ticks in 2 episodes of 4 steps", n)
			}
			return
		}
		if tick.Index != n || tick.Elapsed != min(n, 1) || tick.Deadline != int64(n)*int64(s.Period) {
			t.Fatalf("tick %d: %+v", n, *tick.Header)
		}
	}
}

func TestStepper_StopsIfResetFails(t *testing.T) {
	broken := errors.New("broken")
	s := newStepper(t, haltest.NewSimulator(haltest.Spec(2, 1)), &resets{err: broken})
	if ran, err := s.Step(controller.NewTick(s.Agent.Shape())); ran || !errors.Is(err, broken) || s.Index() != 0 {
		t.Errorf("ran %t: %v", ran, err)
	}
}
