package configs

import (
	"strings"
	"testing"
	"time"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/rtloop"
)

const realRobot = "version: 1\nrobot: {driver: bridge, bridge: {address: 'unix:/r', mode: free}}\nrun: {episode_s: 0}\n"

func TestSafety_RefusesContradictions(t *testing.T) {
	lockstep := []string{"safety.socket=/s", "run.lockstep=true", "robot.bridge.mode=lockstep"}
	for want, set := range map[string][]string{
		"safety.socket is empty, but safety.arm is operator":            {"safety.arm=operator"},
		"safety.socket is empty, but safety.after_stop is hold":         {"safety.after_stop=hold"},
		"safety.socket is too long":                                     {"safety.socket=/" + strings.Repeat("x", 107)},
		"safety.arm is unknown (\"anyone\")":                            {"safety.arm=anyone"},
		"safety.after_stop is unknown":                                  {"safety.after_stop=wait"},
		"safety.arm is operator, but run.lockstep":                      append(lockstep, "safety.arm=operator"),
		"safety.after_stop is hold, but run.lockstep":                   append(lockstep, "safety.after_stop=hold"),
		"safety.frozen_channels is given, but safety.frozen_ticks is 0": {"safety.frozen_channels=[pitch]"},
		"safety.limits: found {channel: \"pitch\"": {
			"safety.limits=[{channel: pitch, min: 1, max: -1}]",
		},
		"safety.limits: found {channel: \"\"":                   {"safety.limits=[{min: 1, max: 2}]"},
		"log.frames_hz is 5, but the robot's time is simulated": {"log.frames_hz=5", "robot.bridge.mode=lockstep"},
		"log.frames_hz is 5, but log.enabled is false":          {"log.frames_hz=5", "log.enabled=false"},
		"safety.max_sample_age_ms is given, but the robot's time": {
			"safety.max_sample_age_ms=50", "robot.bridge.mode=lockstep",
		},
		"safety.max_sample_age_ms is out of range": {"safety.max_sample_age_ms=-1"},
	} {
		errtest.Contains(t, errtest.Of(Parse("c.yaml", []byte(realRobot), set...)), want, set)
	}
}

func TestFile_RulesHasTheSafetySection(t *testing.T) {
	f, err := Parse("c.yaml", []byte(realRobot), "loop.posture=strict", "safety.max_sample_age_ms=12.5",
		"safety.frozen_ticks=7", "safety.frozen_channels=[yaw]",
		"safety.limits=[{channel: pitch, min: -0.5, max: 0.25}]")
	fatal.If(t, err)
	r := f.Rules(false)
	if len(r.Limits) != 1 || r.Limits[0].Channel != "pitch" || r.Limits[0].Min != -0.5 || r.Limits[0].Max != 0.25 {
		t.Errorf("limits %+v", r.Limits)
	}
	if r.MaxPositionAge != r.MaxSampleAge+f.Loop.Period() { // arming comes before the tick's sample
		t.Errorf("positions may be %v old", r.MaxPositionAge)
	}
	if r.MaxSampleAge != 12500*time.Microsecond || r.FrozenTicks != 7 || len(r.FrozenChannels) != 1 {
		t.Errorf("%+v", r)
	}
}

func TestFile_RulesRequireDeadmanForStrictRealRobot(t *testing.T) {
	for _, c := range []struct {
		posture, external string
		simulator, want   bool
	}{
		{"strict", "", false, true},
		{"strict", "relay K2", false, false},
		{"strict", "", true, false},
		{"warn", "", false, false},
	} {
		f := Default()
		f.Loop.Posture, f.Safety.ExternalDeadman = c.posture, c.external
		if got := f.Rules(c.simulator).RequireDeadman; got != c.want {
			t.Errorf("%+v: required %v", c, got)
		}
	}
}

func TestFile_RulesHaveNoSampleAgeInSimulatedTime(t *testing.T) {
	f := Default()
	f.Safety.MaxSampleAgeMS = 10
	if f.Rules(true).MaxSampleAge == 0 {
		t.Error("the rover in real time has none")
	}
	f.Run.Lockstep = true
	if f.Rules(true).MaxSampleAge != 0 {
		t.Error("lockstep has one")
	}
}

func TestSafety_ReadyMadeStrictRobotsBootDisarmedAndHoldStops(t *testing.T) {
	strict := 0
	for _, name := range Names() {
		f, err := Load(name)
		fatal.If(t, err)
		if f.Loop.Posture != rtloop.Strict || f.Robot.Driver == "rover" {
			continue
		}
		strict++
		if f.Safety.Arm != ArmOperator || f.Safety.AfterStop != AfterStopHold {
			t.Errorf("%s: arm %s, after_stop %s", name, f.Safety.Arm, f.Safety.AfterStop)
		}
	}
	if strict < 2 {
		t.Errorf("%d configurations of real robots", strict)
	}
}
