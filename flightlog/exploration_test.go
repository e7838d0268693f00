package flightlog

import (
	"math"
	"strings"
	"testing"

	"optibfm/controller"
	"optibfm/flightlog/flightlogtest"
)

// turning returns a run whose z turns by 1.8° a tick from e_0 towards e_1, as the limits allow.
func turning(explore controller.ExploreConfig, change func(t *controller.Tick, degrees *float64)) simulation {
	cfg := flightlogtest.Config()
	cfg.Explore = explore
	degrees := 0.0
	return simulation{Config: cfg, Ticks: 200, Every: 7, Change: func(t *controller.Tick) {
		change(t, &degrees)
		sin, cos := math.Sincos(degrees * math.Pi / 180)
		clear(t.Z)
		t.Z[0], t.Z[1] = 0.3*cos, 0.3*sin
	}}
}

func vettedAxes(n int) (names []string, z [][]float64) {
	for i := range n {
		names, z = append(names, "a"), append(z, make([]float64, testShape.Latent))
		z[i][i] = 2
	}
	return names, z
}

func TestVerify_ChecksTheLimitsOfExploration(t *testing.T) {
	turn := controller.ExploreConfig{TurnDegPerS: 90} // 1.8° in 20 ms
	cone := controller.ExploreConfig{WithinDeg: 50}
	cone.Tasks, cone.Vetted = vettedAxes(2)
	first := controller.ExploreConfig{UntilLabel: true}
	first.Tasks, first.Vetted = vettedAxes(1)
	labelled := false
	for name, c := range map[string]struct {
		explore controller.ExploreConfig
		change  func(t *controller.Tick, degrees *float64)
		want    string // in the name of the first difference; "": none
	}{
		"a turn at the limit": {turn, func(_ *controller.Tick, degrees *float64) { *degrees += 1.8 }, ""},
		"a faster turn":       {turn, func(_ *controller.Tick, degrees *float64) { *degrees += 1.801 }, "turn of z"},
		"a jump in a new episode": {turn, func(t *controller.Tick, degrees *float64) {
			if t.Index == 50 {
				t.Flags |= controller.FlagEpisodeStart
				*degrees += 90
			}
		}, ""},
		"z between two tasks": {cone, func(t *controller.Tick, degrees *float64) {
			*degrees = float64(t.Index % 140)
		}, ""},
		"z off both tasks": {cone, func(t *controller.Tick, degrees *float64) {
			*degrees = float64(t.Index % 150)
		}, "nearest vetted task"},
		"z of the first task until a label": {first, func(t *controller.Tick, degrees *float64) {
			if labelled = labelled || t.Taught(); labelled {
				*degrees++
			}
		}, ""},
		"another z before the first label": {first, func(_ *controller.Tick, degrees *float64) {
			*degrees = 0.01
		}, "before the first label"},
	} {
		path, _ := turning(c.explore, c.change).run(t)
		result := verify(t, path)
		switch {
		case result.Verified < 150:
			t.Errorf("%s: %d ticks verified", name, result.Verified)
		case c.want == "" && !result.OK():
			t.Errorf("%s: %v", name, result.First)
		case c.want != "" && (result.OK() || !strings.Contains(result.First.Field, c.want)):
			t.Errorf("%s: found %v", name, result.First)
		}
	}
	if !labelled {
		t.Error("the run applied no label")
	}
}

func TestVerify_ComparesNoTurnAcrossMissingTicks(t *testing.T) {
	limits := controller.ExploreConfig{TurnDegPerS: 90}
	run := turning(limits, func(_ *controller.Tick, degrees *float64) { *degrees += 1.8 })
	run.Drop = func(i uint64) bool { return i >= 60 && i < 70 }
	path, _ := run.run(t)
	if result := verify(t, path); !result.OK() || len(result.Gaps) == 0 {
		t.Errorf("%v, gaps %+v", result.First, result.Gaps)
	}
}
