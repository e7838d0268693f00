package setup_test

import (
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/hal"
	"optibfm/hal/bridge"
	"optibfm/hal/haltest"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

func TestRelaxDeadlines_OnlyOfSimulators(t *testing.T) {
	spec := haltest.Spec(1, 1)
	spec.Period = 20 * time.Millisecond
	simulator, physical := haltest.NewSimulator(spec), haltest.New(spec)
	type deadlines struct {
		missed           int
		watchdog         float64
		host             float64
		plan             uint64
		sample, patience float64
	}
	tight := deadlines{5, 200, 1, 25, 100, 60}
	for name, c := range map[string]struct {
		robot  hal.Robot
		change func(*configs.File)
		want   deadlines
	}{
		"physical robot":              {physical, nil, tight},
		"simulator":                   {simulator, nil, deadlines{3000, 60_000, 60, 3000, 60_000, 60}},
		"simulator in simulated time": {simulator, simulatedTime, deadlines{3000, 60_000, 1, 25, 100, 60}},
		"simulator with own deadlines": {
			simulator, func(f *configs.File) { f.Run.SimulatorWaitS = 0 }, deadlines{5, 200, 1, 25, 100, 0},
		},
		"longer, or none": {simulator, func(f *configs.File) {
			f.Loop.MaxMissed, f.Loop.WatchdogMS, f.Run.HostTimeoutS = rtloop.NoLimit, 0, 100
			f.Controller.MaxPlanAge, f.Safety.MaxSampleAgeMS = 9000, 0
		}, deadlines{rtloop.NoLimit, 0, 100, 9000, 0, 60}},
	} {
		f := configs.Default()
		f.Robot.Driver, f.Safety.MaxSampleAgeMS = "bridge", 100
		rigtest.EditRobot(&f, func(c *bridge.Config) { c.Mode = bridge.Free })
		if c.change != nil {
			c.change(&f)
		}
		f = setup.RelaxDeadlines(c.robot, f)
		got := deadlines{
			f.Loop.MaxMissed, f.Loop.WatchdogMS, f.Run.HostTimeoutS, f.Controller.MaxPlanAge, f.Safety.MaxSampleAgeMS,
			f.Run.SimulatorWaitS,
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func simulatedTime(f *configs.File) {
	rigtest.EditRobot(f, func(c *bridge.Config) { c.Mode = bridge.Lockstep })
}
