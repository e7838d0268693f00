package haltest_test

import (
	"errors"
	"fmt"
	"testing"

	"optibfm/hal"
	"optibfm/hal/haltest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func Example() {
	robot := haltest.New(haltest.Spec(1, 2))
	robot.Script([]float32{0.5}, []float32{0.25})

	obs := make([]float32, 1)
	fmt.Println(robot.Act([]float32{1, -1}))
	_ = robot.Arm()
	for range 3 {
		at, _ := robot.Sense(obs)
		_ = robot.Act([]float32{obs[0], 0})
		fmt.Println(at, obs, robot.Output)
	}
	_ = robot.Halt()
	fmt.Println(robot.Acts, robot.Refused, robot.Output, robot.Action(0))
	// Output:
	// hal: the robot is halted: arm it before acting
	// 20000000 [0.5] [0.5 0]
	// 40000000 [0.25] [0.25 0]
	// 60000000 [0.25] [0.25 0]
	// 3 1 [0 0] [0.5 0]
}

func TestRobot_FailsOnDemandAndHalts(t *testing.T) {
	boom := errors.New("boom")
	r := haltest.New(haltest.Spec(1, 1))
	if !errors.Is(r.Act([]float32{0}), hal.ErrHalted) {
		t.Error("a new robot acts")
	}
	r.ArmErr = boom
	if !errors.Is(r.Arm(), boom) || !r.Halted {
		t.Error("Arm did not fail")
	}
	r.ArmErr = nil
	fatal.If(t, r.Arm())
	if r.Act([]float32{2}) == nil || r.Act([]float32{1}) != nil || r.Refused != 2 || r.Output[0] != 1 {
		t.Errorf("refused %d, output %v", r.Refused, r.Output)
	}
	r.SenseErr, r.ActErr, r.HaltErr = boom, boom, boom
	if _, err := r.Sense(make([]float32, 1)); !errors.Is(err, boom) || r.Senses != 0 {
		t.Error("Sense did not fail")
	}
	if !errors.Is(r.Act([]float32{0}), boom) || r.Output[0] != 1 {
		t.Error("Act did not fail")
	}
	if !errors.Is(r.Halt(), boom) || !r.Halted || r.Output[0] != 0 || r.Halts != 1 {
		t.Error("Halt did not halt")
	}
}

func TestReward_IsOfLastSense(t *testing.T) {
	s := haltest.NewSimulator(haltest.Spec(1, 1))
	s.Script([]float32{1}, []float32{2})
	s.RewardOf = func(obs []float32) float64 { return float64(10 * obs[0]) }
	obs := make([]float32, 1)
	for _, want := range []float64{10, 20, 20} {
		fatal.If(t, errtest.Of(s.Sense(obs)))
		if got, ok := s.Reward(); !ok || got != want {
			t.Errorf("reward %v (%v), want %v", got, ok, want)
		}
	}
	if err := s.Reset(7); err != nil || s.Seed != 7 || s.Resets != 1 {
		t.Errorf("reset: %v, seed %d", err, s.Seed)
	}
	if _, ok := s.Reward(); ok {
		t.Error("there is a reward before the first Sense of an episode")
	}
}

func TestRobot_AllocatesNothing(t *testing.T) {
	s := haltest.NewSimulator(haltest.Spec(3, 2))
	s.Script(make([]float32, 3))
	s.RewardOf = func([]float32) float64 { return 1 }
	fatal.If(t, s.Arm())
	obs, action := make([]float32, 3), make([]float32, 2)
	n := testing.AllocsPerRun(2*haltest.Kept, func() {
		fatal.If(t, errtest.Of(s.Sense(obs)))
		s.Reward()
		fatal.If(t, s.Act(action))
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
	if len(s.Action(s.Acts-haltest.Kept)) != 2 {
		t.Error("an action is forgotten")
	}
}

func TestStoppable_UnreadInputIsPressed(t *testing.T) {
	r := haltest.NewStoppable(haltest.Spec(1, 1))
	if !r.StopPressed() {
		t.Error("not pressed before the first Sense")
	}
	obs := make([]float32, 1)
	for _, pressed := range []bool{false, true, false} {
		r.Pressed = pressed
		fatal.If(t, errtest.Of(r.Sense(obs)))
		if r.StopPressed() != pressed {
			t.Errorf("pressed: %v, told %v", pressed, r.StopPressed())
		}
	}
}

func TestRobot_DisarmAndHaltOutputs(t *testing.T) {
	spec := haltest.Spec(1, 1)
	spec.Action[0].Failsafe, spec.Action[0].Disarmed = 0.25, -7
	r := haltest.NewStoppable(spec)
	for name, c := range map[string]struct {
		stop func() error
		want float32
	}{"disarm": {r.Disarm, -7}, "halt": {r.Halt, 0.25}} {
		fatal.If(t, r.Arm())
		if err := c.stop(); err != nil || r.Output[0] != c.want {
			t.Errorf("%s: %v, output %v", name, err, r.Output)
		}
		errtest.Is(t, r.Act([]float32{1}), hal.ErrHalted, name, " does not latch")
	}
}
