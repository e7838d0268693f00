package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"periph.io/x/conn/v3/i2c"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal/assembly"
	"optibfm/hal/bridge"
	"optibfm/hal/haltest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
)

// armable is a simulator with the rover's channels that records whether it was armed.
type armable struct {
	*haltest.Simulator
	armed atomic.Bool
}

func (a *armable) Arm() error {
	a.armed.Store(true)
	return a.Simulator.Arm()
}

// serveArmable serves a robot over a bridge and returns the settings that reach it.
func serveArmable(t *testing.T) (*armable, []string) {
	t.Helper()
	spec := rigtest.WithRoverNames(t, haltest.Spec(6, 2))
	spec.Period = 20 * time.Millisecond
	robot := &armable{Simulator: haltest.NewSimulator(spec)}
	address := "unix:" + filepath.Join(t.TempDir(), "robot")
	l, err := bridge.Listen(address)
	fatal.If(t, err)
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = bridge.Serve(ctx, l, robot, func(error) {})
	}()
	t.Cleanup(func() { stop(); <-served })
	return robot, []string{
		"robot.driver=bridge", "robot.bridge.address=" + address, "loop.period_ms=20",
		"run.episode_s=0", "run.duration_s=0.1", "log.enabled=false",
	}
}

func TestRun_RefusesAModelWithOtherChannels(t *testing.T) {
	t.Setenv(actAsProgram, "1") // for the host process of a run that was not refused
	modes := map[string]runFlags{
		"real time": {}, "fast": {fast: true}, "shadow": {shadow: true},
		"lockstep": {set: []string{"run.lockstep=true"}},
	}
	for name, c := range rigtest.MismatchedModels {
		bundle := "model.bundle=" + rigtest.RoverBundle(t, c.Change)
		for mode, flags := range modes {
			for _, driver := range []string{"rover", "bridge"} {
				t.Run(name+", "+mode+", "+driver, func(t *testing.T) {
					f := flags
					f.config, f.plain, f.operator = configs.DefaultName(), true, "none"
					f.set = append(f.set[:len(f.set):len(f.set)], bundle, "safety.socket=", "log.enabled=false",
						"run.duration_s=0.1")
					var robot *armable
					if driver == "bridge" {
						var settings []string
						robot, settings = serveArmable(t)
						f.set = append(f.set, settings...)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // ends a run that was not refused
					defer cancel()
					err := run(ctx, f, io.Discard)
					if !errors.Is(err, controller.ErrMismatch) || !strings.Contains(err.Error()+"\n", c.Shows) {
						t.Errorf("no %q in: %v", c.Shows, err)
					}
					if robot != nil && robot.armed.Load() {
						t.Error("the robot was armed")
					}
				})
			}
		}
	}
}

func TestRun_RefusesUnnamedChannelsWithStrictPostureOnly(t *testing.T) {
	for _, driver := range []string{"rover", "bridge"} {
		t.Run(driver, func(t *testing.T) {
			f := runFlags{config: configs.DefaultName(), fast: true, plain: true, operator: "none"}
			bundle := rigtest.RoverBundle(t, rigtest.RemoveChannelNames)
			f.set = []string{"model.bundle=" + bundle, "run.duration_s=0.1", "run.episodes=0", "log.enabled=false"}
			if driver == "bridge" {
				_, settings := serveArmable(t)
				f.set = append(f.set, settings...)
			}
			errtest.Nil(t, run(t.Context(), f, io.Discard), "posture warn")
			f.set = append(f.set, "loop.posture=strict")
			err := run(t.Context(), f, io.Discard)
			errtest.Contains(t, err, "observation and action channels have no names", "posture strict")
		})
	}
}

func TestRun_ComparesChannelsBeforeItOpensADevice(t *testing.T) {
	computer := assembly.LocalHardware
	defer func() { assembly.LocalHardware = computer }()
	assembly.LocalHardware.OpenI2C = func(string, time.Duration) (i2c.BusCloser, error) {
		t.Error("a bus was opened")
		return nil, os.ErrPermission
	}
	const channel = "robot.composite.observation[4]."
	set := []string{channel + "name=forward_speed", channel + "unit=m/s"}
	_, err := openRun(runFlags{config: "composite", set: set})
	const want = "*    4  forward_speed [m/s]  speed\n"
	errtest.Is(t, err, controller.ErrMismatch)
	errtest.Contains(t, err, want)
}

func TestConfig_ValidateComparesModelAndRobot(t *testing.T) {
	const renamed = "robot.composite.observation[4].name=velocity"
	reversed := rigtest.RoverBundle(t, rigtest.MismatchedModels["reversed action"].Change)
	unnamed := rigtest.RoverBundle(t, rigtest.RemoveChannelNames)
	for _, c := range []struct {
		name string
		set  []string
		want string // of the output; "" for ErrMismatch
	}{
		{"rover", []string{"model.bundle=" + reversed}, ""},
		{"rover", []string{"model.bundle=" + unnamed}, "valid\nwarning: model.bundle"},
		{"composite", []string{renamed}, ""},
		{"composite", []string{renamed, "model.bundle=" + filepath.Join(t.TempDir(), "missing")}, "valid"},
		{"servo-arm", nil, "warning: loop.posture strict refuses to run: safety.external_deadman"},
		{"servo-arm", []string{"loop.period_ms=5", "loop.posture=warn"}, "warning: loop.period_ms: found 5ms"},
	} {
		args := []string{"config", "validate", c.name}
		for _, s := range c.set {
			args = append(args, "--set", s)
		}
		out, err := execute(args...)
		if c.want == "" && !errors.Is(err, controller.ErrMismatch) ||
			c.want != "" && (err != nil || !strings.Contains(out, c.want)) {
			t.Errorf("%v: %q, %v", args, out, err)
		}
	}
}

func TestConfig_ValidateWarnsNotOfAShadowRun(t *testing.T) {
	out, err := execute("config", "validate", "servo-arm", "--set", "loop.period_ms=5", "--set", "run.shadow=true")
	if err != nil || out != "servo-arm: valid\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestOpenSession_NamesTheMissingFilesOfAReadyMadeConfiguration(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := openRun(runFlags{config: "walker"})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	rigtest.Contains(t, err.Error(),
		"model.bundle: models/walker: file does not exist",
		"robot.bridge.command: scripts/dmc_bridge.py: file does not exist",
		"repository",
	)
	_, err = openRun(runFlags{config: "rover", set: []string{"model.bundle=/no/model"}})
	if err == nil {
		t.Fatal("an absolute path without a model: no error")
	}
	if !strings.Contains(err.Error(), "model.bundle: /no/model") || strings.Contains(err.Error(), "repository") {
		t.Errorf("an absolute path: %v", err)
	}
}
