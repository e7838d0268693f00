package rigtest

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/hal"
	"optibfm/hal/haltest"
	"optibfm/hal/rover"
	"optibfm/internal/setup"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// WithRoverNames gives a robot with the rover's sizes the names of the rover's channels.
func WithRoverNames(t *testing.T, spec hal.Spec) hal.Spec {
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

// RoverBundle writes a random model of the rover's sizes, with the rover's channels as changed.
func RoverBundle(t *testing.T, change func(*tflite.Manifest)) string {
	t.Helper()
	m := tflitetest.Manifest(tflite.Dims{Obs: 6, Action: 2, Latent: 8, Ensemble: 2})
	for _, c := range WithRoverNames(t, haltest.Spec(6, 2)).Obs {
		m.Observation = append(m.Observation, tflite.Channel{Name: c.Name})
	}
	for _, c := range WithRoverNames(t, haltest.Spec(6, 2)).Action {
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
var MismatchedModels = map[string]struct {
	Change func(*tflite.Manifest)
	Shows  string
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

func RemoveChannelNames(m *tflite.Manifest) { m.Observation, m.Action = nil, nil }

// SavedModelDir is a SavedModel of the rover's size: testdata/make_exported.py.
var SavedModelDir = testdata("exported")

// SavedModelBundle writes a bundle of exported as `model import` does; change alters
// what it says.
func SavedModelBundle(t *testing.T, change func(*tflite.SavedModel)) string {
	t.Helper()
	m := tflite.SavedModel{Dir: SavedModelDir, Name: "exported", Signatures: tflite.DefaultSignatures(), Sizes: tflite.Dims{Obs: 6, Action: 2, Latent: 8, Ensemble: 2}}
	if change != nil {
		change(&m)
	}
	dir := filepath.Join(t.TempDir(), "bundle")
	if _, err := tflite.SaveSavedModel(dir, m); err != nil {
		t.Fatal(err)
	}
	return dir
}

func RoverSpec(t testing.TB) hal.Spec {
	t.Helper()
	r, err := rover.New(rover.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	return r.Spec()
}

// NewSession is a session with the rover and an untrained model.
func NewSession(t *testing.T, change func(*configs.File)) *setup.Session {
	t.Helper()
	file := configs.Default()
	file.Log.Dir = t.TempDir()
	if change != nil {
		change(&file)
	}
	s := &setup.Session{File: file, Model: setup.NativeModel{Bundle: tflitetest.Bundle(tflite.Dims{Obs: 6, Action: 2, Latent: 8, Ensemble: 2}, 1)}}
	if err := s.UpdateYAML(); err != nil {
		t.Fatal(err)
	}
	return s
}

var ModelDims = tflite.Dims{Obs: 2, Action: 1, Latent: 3, Ensemble: 2}

// ModelBundle saves a random bundle.
func ModelBundle(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bundle")
	m := tflitetest.Manifest(ModelDims)
	if err := tflite.Save(dir, m, tflitetest.Tensors(m.Architecture, 1)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// WaitUntil polls until done returns true. It returns false after the timeout.
func WaitUntil(timeout time.Duration, done func() bool) bool {
	for deadline := time.Now().Add(timeout); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}
