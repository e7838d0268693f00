package bench

import (
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/hal/rover"
	"optibfm/internal/fatal"
	"optibfm/tflite"
)

func TestOpen_CountsTheBytesOfTheWeights(t *testing.T) {
	bundle, err := tflite.Load(rover.Model())
	fatal.If(t, err)
	var want int64
	for name, shape := range bundle.Architecture.Tensors() {
		if !strings.HasSuffix(name, ".weight") || strings.HasSuffix(name, ".1.weight") { // biases, LayerNorm
			continue
		}
		size := int64(4)
		for _, n := range shape {
			size *= int64(n)
		}
		want += size
	}
	o, release, err := Open(configs.Default(), 1)
	fatal.If(t, err)
	if err := release(); err != nil || o.Weights != want {
		t.Errorf("%d bytes, want %d; %v", o.Weights, want, err)
	}
}
