package rover_test

import (
	"math"
	"testing"

	"optibfm/hal/rover"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/tflite"
)

func loadModel(t *testing.T) *tflite.Bundle {
	t.Helper()
	bundle, err := tflite.Load(rover.Model())
	fatal.If(t, err)
	return bundle
}

func TestModel_FitsRover(t *testing.T) {
	robot, err := rover.New(rover.DefaultConfig())
	fatal.If(t, err)
	manifest, spec := loadModel(t).Manifest, robot.Spec()
	if len(manifest.Observation) != len(spec.Obs) || len(manifest.Action) != len(spec.Action) {
		t.Fatalf("the model has %d and %d channels, the rover %d and %d",
			len(manifest.Observation), len(manifest.Action), len(spec.Obs), len(spec.Action))
	}
	for i, c := range spec.Obs {
		if manifest.Observation[i].Name != c.Name {
			t.Errorf("observation %d is %q to the model, %q to the rover", i, manifest.Observation[i].Name, c.Name)
		}
	}
	for i, c := range spec.Action {
		if manifest.Action[i].Name != c.Name {
			t.Errorf("action %d is %q to the model, %q to the rover", i, manifest.Action[i].Name, c.Name)
		}
	}
}

func TestModel_HasProvenance(t *testing.T) {
	provenance := loadModel(t).Manifest.Provenance
	for _, key := range []string{"trained_by", "data", "settings", "updates"} {
		if provenance[key] == "" {
			t.Errorf("provenance has no %s", key)
		}
	}
}

func TestModel_FeaturesVary(t *testing.T) {
	network, err := loadModel(t).NewNetwork()
	fatal.If(t, err)
	robot, err := rover.New(rover.DefaultConfig())
	fatal.If(t, err)
	d := network.Dims().Latent
	obs, phi := make([]float32, len(robot.Spec().Obs)), make([]float64, d)
	sum, squares := make([]float64, d), make([]float64, d)
	const n = 500
	for seed := range uint64(n) {
		fatal.If(t, robot.Reset(seed))
		fatal.If(t, errtest.Of(robot.Sense(obs)))
		fatal.If(t, network.Phi(phi, obs))
		for i, x := range phi {
			sum[i] += x
			squares[i] += x * x
		}
	}
	for i := range d {
		mean := sum[i] / n
		if deviation := math.Sqrt(squares[i]/n - mean*mean); deviation < 0.05 {
			t.Errorf("feature %d deviates by %g over the arena: the model has collapsed", i, deviation)
		}
	}
}
