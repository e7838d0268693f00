package setup

import (
	"optibfm/configs"
	"optibfm/hal"
	"optibfm/rtloop"
)

// RelaxDeadlines returns the configuration of a run in real time with the deadlines of its robot.
// Those of a simulator last at least run.simulator_wait_s: they would only end a run on a busy
// computer. A robot in simulated time waits for the host instead (CanWaitForHost). The bridge
// relaxes its own, robot.bridge.stale_ms. Other robots keep theirs.
func RelaxDeadlines(r hal.Robot, f configs.File) configs.File {
	wait := f.Run.SimulatorWaitS
	if !IsSimulator(r) || wait == 0 {
		return f
	}
	periods := Periods(wait, r.Spec().Period)
	if f.Loop.MaxMissed != rtloop.NoLimit {
		f.Loop.MaxMissed = max(f.Loop.MaxMissed, int(periods))
	}
	if f.Loop.WatchdogMS > 0 {
		f.Loop.WatchdogMS = max(f.Loop.WatchdogMS, 1000*wait)
	}
	if CanWaitForHost(r, f) {
		return f
	}
	f.Run.HostTimeoutS = max(f.Run.HostTimeoutS, wait)
	f.Controller.MaxPlanAge = max(f.Controller.MaxPlanAge, periods)
	if f.Safety.MaxSampleAgeMS > 0 {
		f.Safety.MaxSampleAgeMS = max(f.Safety.MaxSampleAgeMS, 1000*wait)
	}
	return f
}
