package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/hal/bridge"
	"optibfm/hal/haltest"
	"optibfm/hal/rover"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// roverNamed gives a robot with the rover's sizes the names of the rover's channels.
func roverNamed(t *testing.T, spec hal.Spec) hal.Spec {
	t.Helper()
	robot, err := rover.New(rover.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range robot.Spec().Obs {
		spec.Obs[i].Name = c.Name
	}
	for i, c := range robot.Spec().Action {
		spec.Action[i].Name = c.Name
	}
	return spec
}

// roverBundle writes a random model of the rover's sizes, with the rover's channels as changed.
func roverBundle(t *testing.T, change func(*tflite.Manifest)) string {
	t.Helper()
	m := tflitetest.Manifest(tflite.Dims{Obs: 6, Action: 2, Latent: 8, Ensemble: 2})
	for _, c := range roverNamed(t, haltest.Spec(6, 2)).Obs {
		m.Observation = append(m.Observation, tflite.Channel{Name: c.Name})
	}
	for _, c := range roverNamed(t, haltest.Spec(6, 2)).Action {
		m.Action = append(m.Action, tflite.Channel{Name: c.Name})
	}
	change(&m)
	dir := filepath.Join(t.TempDir(), "bundle")
	if err := tflite.Save(dir, m, tflitetest.Tensors(m.Architecture, 1)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The ways in which a model does not match the rover, and what the error shows.
var mismatched = map[string]struct {
	change func(*tflite.Manifest)
	shows  string
}{
	"reversed observation": {
		func(m *tflite.Manifest) { slices.Reverse(m.Observation) },
		"*    0  x            yaw_rate\n",
	},
	"reversed action": {
		func(m *tflite.Manifest) { slices.Reverse(m.Action) },
		"*    0  left_wheel   right_wheel\n",
	},
	"another unit": {
		func(m *tflite.Manifest) { m.Observation[4].Unit = "m/s" },
		"*    4  speed        speed [m/s]\n",
	},
}

func unnamed(m *tflite.Manifest) { m.Observation, m.Action = nil, nil }

// armable is a simulator with the rover's channels that notes whether it was armed.
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
	spec := roverNamed(t, haltest.Spec(6, 2))
	spec.Period = 20 * time.Millisecond
	robot := &armable{Simulator: haltest.NewSimulator(spec)}
	address := "unix:" + filepath.Join(t.TempDir(), "robot")
	l, err := bridge.Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = bridge.Serve(ctx, l, robot, nil)
	}()
	t.Cleanup(func() { stop(); <-served })
	return robot, []string{
		"robot.driver=bridge", "robot.bridge.address=" + address, "loop.period_ms=20",
		"run.episode_s=0", "run.duration_s=0.1", "log.enabled=false",
	}
}

func TestRun_RefusesAModelWithOtherChannels(t *testing.T) {
	t.Setenv(actAsProgram, "1") // of the host process, if one is started
	modes := map[string]runFlags{
		"real time": {}, "lockstep": {set: []string{"run.lockstep=true"}}, "fast": {fast: true}, "shadow": {shadow: true},
	}
	for name, c := range mismatched {
		bundle := "model.bundle=" + roverBundle(t, c.change)
		for mode, flags := range modes {
			for _, driver := range []string{configs.DriverRover, configs.DriverBridge} {
				t.Run(name+", "+mode+", "+driver, func(t *testing.T) {
					f := flags
					f.config, f.plain, f.operator = embeddedConfig, true, "none"
					f.set = append(slices.Clone(f.set), bundle, "safety.socket=", "log.enabled=false", "run.duration_s=0.1")
					var robot *armable
					if driver == configs.DriverBridge {
						var settings []string
						robot, settings = serveArmable(t)
						f.set = append(f.set, settings...)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // ends a run that was not refused
					defer cancel()
					err := run(ctx, f, io.Discard)
					if !errors.Is(err, controller.ErrMismatch) || !strings.Contains(err.Error()+"\n", c.shows) {
						t.Errorf("no %q in: %v", c.shows, err)
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
	for _, driver := range []string{configs.DriverRover, configs.DriverBridge} {
		t.Run(driver, func(t *testing.T) {
			f := runFlags{config: embeddedConfig, fast: true, plain: true, operator: "none"}
			bundle := roverBundle(t, unnamed)
			f.set = []string{"model.bundle=" + bundle, "run.duration_s=0.1", "run.episodes=0", "log.enabled=false"}
			if driver == configs.DriverBridge {
				_, settings := serveArmable(t)
				f.set = append(f.set, settings...)
			}
			if err := run(t.Context(), f, io.Discard); err != nil {
				t.Errorf("posture warn: %v", err)
			}
			f.set = append(f.set, "loop.posture=strict")
			err := run(t.Context(), f, io.Discard)
			if err == nil || !strings.Contains(err.Error(), "observation and action channels have no names") {
				t.Errorf("posture strict: %v", err)
			}
		})
	}
}

func TestCheckNamed_NamesTheListWithoutNames(t *testing.T) {
	s := testSession(t, func(f *configs.File) { f.Model.Bundle = "models/mine" })
	spec := roverNamed(t, haltest.Spec(6, 2))
	var action []tflite.Channel
	for _, c := range spec.Action {
		action = append(action, tflite.Channel{Name: c.Name})
	}
	s.model.(nativeModel).Action = action
	warning, err := checkNamed(s.file, s.model)
	if err != nil || !strings.HasPrefix(warning, "model.bundle: models/mine: the observation channels have no names") {
		t.Errorf("%q, %v", warning, err)
	}
}

func TestDoctor_ComparesChannelsAsARunDoes(t *testing.T) {
	for name, c := range mismatched {
		d := examined(t, fakeMachine(tree()), "rover", "model.bundle="+roverBundle(t, c.change))
		verdict(t, name, d.bundle(), statusOK)
		verdict(t, name, d.fit(), statusFail, strings.TrimSpace(c.shows))
	}
	set := []string{"model.bundle=" + roverBundle(t, unnamed)}
	for _, driver := range [][]string{nil, {"robot.driver=bridge", "robot.bridge.address=unix:/s"}} {
		d := examined(t, fakeMachine(tree()), "rover", append(slices.Clone(set), driver...)...)
		verdict(t, "unnamed", d.bundle(), statusOK)
		f := d.fit()
		if verdict(t, "unnamed", f, statusWarn, "have no names"); !f.Strict {
			t.Error("the warning is not a failure with posture strict")
		}
		d.file.Loop.Posture = "strict"
		verdict(t, "unnamed, strict", d.fit(), statusFail, "have no names")
	}
}

func TestConfigValidate_ComparesChannelsOfTheRover(t *testing.T) {
	_, err := runConfig("validate", "rover", "--set", "model.bundle="+roverBundle(t, mismatched["reversed action"].change))
	if !errors.Is(err, controller.ErrMismatch) {
		t.Errorf("reversed: %v", err)
	}
	out, err := runConfig("validate", "rover", "--set", "model.bundle="+roverBundle(t, unnamed))
	if err != nil || !strings.Contains(out, "valid; warning: model.bundle") {
		t.Errorf("unnamed: %q, %v", out, err)
	}
}

func TestOpenSession_SaysWhereTheFilesOfAReadyMadeConfigurationAre(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := openRun(runFlags{config: "walker"})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, want := range []string{
		"model.bundle: stat models/walker: no such file",
		"robot.bridge.command: stat scripts/dmc_bridge.py: no such file",
		"repository",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	_, err = openRun(runFlags{config: "rover", set: []string{"model.bundle=/no/model"}})
	if err == nil || !strings.Contains(err.Error(), "stat /no/model") || strings.Contains(err.Error(), "repository") {
		t.Errorf("an absolute path: %v", err)
	}
}
