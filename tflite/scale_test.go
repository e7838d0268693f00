package tflite

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestBundle_CheckScaleNamesChannelsOfAnotherScale(t *testing.T) {
	b := &Bundle{weights: &weights{mean: []float32{5, 0, -1}, scale: []float32{0.5, 10, 1}}}
	b.Observation = []Channel{{Name: "height"}, {Name: "speed"}, {Name: "angle"}}
	for name, c := range map[string]struct {
		change func(obs []float32)
		want   string
	}{
		"the training data": {func([]float32) {}, ""},
		"another unit": {func(obs []float32) {
			for i := 1; i < len(obs); i += 3 {
				obs[i] *= 1000
			}
		}, "channel 1 (speed): "},
		"an outlier": {func(obs []float32) { obs[5] = 1e6 }, "channel 2 (angle): 1 of 300 values"},
		"a smaller unit": {func(obs []float32) {
			for i := 2; i < len(obs); i += 3 {
				obs[i] = -1 + (obs[i]+1)*0.001
			}
		}, "channel 2 (angle): the values vary by 0.00"},
	} {
		rng := rand.New(rand.NewPCG(1, 7))
		obs := make([]float32, 900)
		for i := range obs {
			obs[i] = b.weights.mean[i%3] + float32(rng.NormFloat64())/b.weights.scale[i%3]
		}
		c.change(obs)
		found := b.CheckScale(obs)
		if got := strings.Join(found, "; "); c.want == "" && got != "" || !strings.HasPrefix(got, c.want) || len(found) > 1 {
			t.Errorf("%s: %q", name, got)
		}
	}
	if found := (&Bundle{weights: &weights{}}).CheckScale(make([]float32, 9)); len(found) > 0 {
		t.Errorf("without a normaliser: %q", found)
	}
}
