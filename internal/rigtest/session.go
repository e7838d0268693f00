package rigtest

import (
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/hal/rover"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/sections"
	"optibfm/internal/setup"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// WithRoverNames renames the channels of a robot to those of the rover.
func WithRoverNames(t *testing.T, spec hal.Spec) hal.Spec {
	t.Helper()
	rover := RoverSpec(t)
	for i, c := range rover.Obs {
		spec.Obs[i].Name = c.Name
	}
	for i, c := range rover.Action {
		spec.Action[i].Name = c.Name
	}
	return spec
}

// RoverBundle writes a random model for the rover and returns its folder. change edits the
// channels.
func RoverBundle(t *testing.T, change func(*tflite.Manifest)) string {
	t.Helper()
	m := tflitetest.Manifest(roverDims)
	for _, c := range RoverSpec(t).Obs {
		m.Observation = append(m.Observation, tflite.Channel{Name: c.Name})
	}
	for _, c := range RoverSpec(t).Action {
		m.Action = append(m.Action, tflite.Channel{Name: c.Name})
	}
	change(&m)
	dir := filepath.Join(t.TempDir(), "bundle")
	fatal.If(t, tflite.Save(dir, m, tflitetest.Tensors(m.Architecture, 1)))
	return dir
}

// MismatchedModels are changes of a model that do not match the rover, with a line of the error.
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

// RemoveChannelNames makes a model without channel names.
func RemoveChannelNames(m *tflite.Manifest) { m.Observation, m.Action = nil, nil }

// SavedModelDir is a SavedModel of the rover's sizes, made by testdata/make_exported.py.
var SavedModelDir = testdata("exported")

// SavedModelBundle writes a bundle of SavedModelDir as `model import` does, changed by change.
func SavedModelBundle(t *testing.T, change func(*tflite.SavedModel)) string {
	t.Helper()
	m := tflite.SavedModel{
		Dir: SavedModelDir, Name: "exported", Signatures: tflite.DefaultSignatures(), Sizes: roverDims,
	}
	if change != nil {
		change(&m)
	}
	dir := filepath.Join(t.TempDir(), "bundle")
	fatal.If(t, errtest.Of(tflite.SaveSavedModel(dir, m)))
	return dir
}

// RoverSpec returns the spec of the rover.
func RoverSpec(t testing.TB) hal.Spec {
	t.Helper()
	r, err := rover.New(rover.DefaultConfig())
	fatal.If(t, err)
	return r.Spec()
}

// NewSession returns a session with the rover and an untrained model.
func NewSession(t *testing.T, change func(*configs.File)) *setup.Session {
	t.Helper()
	file := configs.Default()
	file.Controller = controller.DefaultConfig() // its requests and beliefs do not depend on a task prior
	file.Log.Dir = t.TempDir()
	if change != nil {
		change(&file)
	}
	s := &setup.Session{File: file, Model: setup.NativeModel{Bundle: tflitetest.Bundle(roverDims, 1)}}
	fatal.If(t, s.UpdateYAML())
	return s
}

// roverDims are the sizes of a small model of the rover.
var roverDims = tflite.Dims{Obs: 6, Action: 2, Latent: 8, Ensemble: 2}

// ModelDims are the sizes of ModelBundle.
var ModelDims = tflite.Dims{Obs: 2, Action: 1, Latent: 3, Ensemble: 2}

// ModelBundle writes a random model and returns its folder.
func ModelBundle(t *testing.T) string {
	t.Helper()
	m := tflitetest.Manifest(ModelDims)
	return saveBundle(t, m, tflitetest.Tensors(m.Architecture, 1))
}

// NormalisedBundle is ModelBundle of a model that normalises observations of mean 0 and deviation
// 1.
func NormalisedBundle(t *testing.T) string {
	t.Helper()
	m := tflitetest.Manifest(ModelDims)
	m.Architecture.NormObs = true
	tensors := tflitetest.Tensors(m.Architecture, 1)
	mean, variance := tensors["_obs_normalizer.running_mean"].F32, tensors["_obs_normalizer.running_var"].F32
	for i := range mean {
		mean[i], variance[i] = 0, 1
	}
	return saveBundle(t, m, tensors)
}

func saveBundle(t *testing.T, m tflite.Manifest, tensors map[string]tflite.Tensor) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "bundle")
	fatal.If(t, tflite.Save(dir, m, tensors))
	return dir
}

// HangGuard is the longest wait of a test for an event on a busy machine. The program has other
// deadlines.
const HangGuard = 3 * time.Minute

// WaitUntil polls until done returns true. It returns false after the timeout.
func WaitUntil(timeout time.Duration, done func() bool) bool {
	for deadline := time.Now().Add(timeout); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// BeliefHashes returns the belief hash of each tick of a log.
func BeliefHashes(t *testing.T, r *flightlog.Reader) (hashes []uint64) {
	t.Helper()
	for record, err := range r.Records() {
		fatal.If(t, err)
		if record.Tick != nil {
			hashes = append(hashes, record.Tick.Hash)
		}
	}
	return hashes
}

// testdata returns the path of a file in the testdata folder of this package.
func testdata(name string) string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "testdata", name)
}

// Section returns the section of a robot's driver by its type.
func Section[C any](f configs.File) C { return sections.Get[C](f.Robot.Sections) }

// EditRobot changes the section of a robot's driver.
func EditRobot[C any](f *configs.File, change func(*C)) { sections.Edit(&f.Robot.Sections, change) }
