package controller

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"optibfm/hal"
	"optibfm/hal/haltest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/tflite"
)

// g1 describes a Unitree G1 with the channels that BFM-Zero reads.
func g1() hal.Spec {
	spec := haltest.Spec(1, 29)
	spec.Obs = nil
	for _, part := range []struct {
		name string
		n    int
	}{{"gyro", 3}, {"position", 29}, {"velocity", 29}, {"gravity", 3}} {
		for i := range part.n {
			spec.Obs = append(spec.Obs, hal.Channel{Name: fmt.Sprintf("%s_%d", part.name, i), Unit: "u"})
		}
	}
	return spec
}

// bfmZeroGroups assemble the observation of BFM-Zero.
func bfmZeroGroups() []Group {
	return []Group{
		{"history_actor", []Term{
			{LastAction: true, Scale: 5, Steps: 4}, {Channels: []string{"gyro_*"}, Scale: 0.25, Steps: 4},
			{Channels: []string{"position_*"}, Steps: 4}, {Channels: []string{"velocity_*"}, Steps: 4},
			{Channels: []string{"gravity_*"}, Steps: 4},
		}},
		{"state", []Term{
			{Channels: []string{"position_*", "velocity_*", "gravity_*"}}, {Channels: []string{"gyro_*"}, Scale: 0.25},
		}},
		{"last_action", []Term{{LastAction: true, Scale: 5}}},
	}
}

var bfmZeroModel = []tflite.Group{
	{Name: "state", Size: 64}, {Name: "last_action", Size: 29}, {Name: "history_actor", Size: 372},
}

// shifted is a history of n rows, the newest first, beginning with zeros.
type shifted [][]float32

func (h shifted) add(row []float32) {
	copy(h[1:], h)
	h[0] = slices.Clone(row)
}

// BFM-Zero's deployment code shifts each history by one row, writes the newest reading or action
// into row 0, and concatenates all rows.
func TestAssembler_EqualsHistoriesOfShiftedRows(t *testing.T) {
	a, err := NewAssembler(bfmZeroGroups(), bfmZeroModel, g1())
	fatal.If(t, err)
	zeros := func(n int) shifted {
		return shifted{make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)}
	}
	actions, gyros, positions, velocities, gravities := zeros(29), zeros(3), zeros(29), zeros(29), zeros(3)
	rng := rand.New(rand.NewPCG(1, 1))
	randoms := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	scaled := func(x []float32, scale float32) []float32 {
		y := slices.Clone(x)
		for i := range y {
			y[i] *= scale
		}
		return y
	}
	last, obs := make([]float32, 29), make([]float32, 465)
	for tick := range 1000 {
		readings := randoms(64)
		gyro, position, velocity, gravity := readings[:3], readings[3:32], readings[32:61], readings[61:]
		actions.add(scaled(last, 5))
		gyros.add(scaled(gyro, 0.25))
		positions.add(position)
		velocities.add(velocity)
		gravities.add(gravity)
		want := slices.Concat(position, velocity, gravity, gyros[0], actions[0])
		for _, history := range []shifted{actions, gyros, positions, velocities, gravities} {
			want = append(want, slices.Concat(history...)...)
		}
		a.Assemble(obs, readings)
		if !slices.Equal(obs, want) {
			t.Fatalf("tick %d: the observations differ", tick)
		}
		last = randoms(29)
		a.NoteAction(last)
		a.NoteAction([]float32{float32(nan)})
	}
	a.Reset()
	readings := randoms(64)
	a.Assemble(obs, readings)
	if obs[64] != 0 || obs[93+4*29+3] != 0 || obs[93+4*29] != readings[0]*0.25 {
		t.Error("Reset leaves older values")
	}
	if allocs := testing.AllocsPerRun(10, func() { a.Assemble(obs, readings); a.NoteAction(last) }); allocs != 0 {
		t.Errorf("%g allocations", allocs)
	}
}

func TestAssembler_NamesChannels(t *testing.T) {
	a, err := NewAssembler(bfmZeroGroups(), bfmZeroModel, g1())
	fatal.If(t, err)
	for i, want := range map[int]hal.Channel{
		0: {Name: "position_0", Unit: "u"}, 61: {Name: "gyro_0"}, 64: {Name: "last_action.a0@-1"},
		93 + 29: {Name: "history_actor.a0@-2"}, 464: {Name: "history_actor.gravity_2@-3", Unit: "u"},
	} {
		if got := a.Spec().Obs[i]; got != want {
			t.Errorf("element %d is %+v, want %+v", i, got, want)
		}
	}
	errtest.Nil(t, a.Spec().Validate())
}

func TestNewAssembler_NamesMistakes(t *testing.T) {
	for _, c := range []struct {
		change func(g []Group)
		words  string
	}{
		{func(g []Group) { g[1].Name = "stat" }, `the model has no group "stat"; use state, last_action, history_actor`},
		{func(g []Group) { g[1].Name = "last_action" }, `group "state" (64 elements) is missing`},
		{func(g []Group) { g[1].Terms = g[1].Terms[:1] }, "state: the terms give 61 elements, the model has 64"},
		{func(g []Group) { g[1].Terms[1].Channels = []string{"gyr_*"} },
			`state: term 1: fake has no observation channel "gyr_*"`},
		{func(g []Group) { g[1].Terms[1].Channels = []string{"["} }, "syntax error"},
		{func(g []Group) { g[2].Terms[0].Channels = []string{"gyro_0"} },
			"last_action: term 0: found 1 channels and last_action: true"},
		{func(g []Group) { g[2].Terms[0].LastAction = false }, "found 0 channels and last_action: false"},
		{func(g []Group) { g[2].Terms[0].Steps = -1 }, "steps -1"},
		{func(g []Group) { g[2].Terms[0].Skip = 2000 }, "skip 2000"},
		{func(g []Group) { g[2].Terms[0].Scale = nan }, "scale NaN"},
		{func(g []Group) { g[2].Terms[0].Scale = 1e60 }, "out of range"},
	} {
		groups := bfmZeroGroups()
		c.change(groups)
		_, err := NewAssembler(groups, bfmZeroModel, g1())
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%v, want an error with %q", err, c.words)
		}
	}
}

// The model sees the policy's action, from -1 to 1, not the limited one in the robot's units.
func TestAgent_ObservesReadingsAndLastActions(t *testing.T) {
	spec := haltest.Spec(rigObs, rigAction)
	assembler, err := NewAssembler([]Group{
		{"state", []Term{{Channels: []string{"o2", "o0"}}}},
		{"history", []Term{{LastAction: true, Steps: 2}, {Channels: []string{"o1"}, Steps: 2, Skip: 1}}},
	}, []tflite.Group{{Name: "state", Size: 2}, {Name: "history", Size: 6}}, spec)
	fatal.If(t, err)
	r := newRig(t, nil)
	r.model.dims.Obs = 8
	var actions [][]float32
	r.model.act = func(dst, obs []float32, _ []float64) error {
		for i := range dst {
			dst[i] = obs[0] / float32(i+2)
		}
		actions = append(actions, slices.Clone(dst))
		return nil
	}
	var readings [][]float32
	sense := r.robot.Observe
	r.robot.Observe = func(n int, obs []float32) error {
		err := sense(n, obs)
		readings = append(readings, slices.Clone(obs))
		return err
	}
	planner, err := NewPlanner(r.cfg, r.model)
	fatal.If(t, err)
	r.agent, err = NewAgent(r.cfg, Parts{
		Robot: r.robot, Source: r.source, Model: r.model, Plans: NewLockstep(planner), Assembler: assembler,
	})
	fatal.If(t, err)
	r.tick = NewTick(r.agent.Shape())
	r.arm()
	r.steps(20)
	now, acted := len(readings)-1, len(actions)-2 // the last reading, and the action of the tick before
	want := slices.Concat([]float32{readings[now][2], readings[now][0]}, actions[acted], actions[acted-1],
		[]float32{readings[now-1][1], readings[now-2][1]})
	if !slices.Equal(r.tick.Obs, want) {
		t.Errorf("observation %v, want %v", r.tick.Obs, want)
	}
	fatal.If(t, r.step(0, FlagEpisodeStart))
	if !slices.Equal(r.tick.Obs[2:], make([]float32, 6)) {
		t.Errorf("after a reset: %v", r.tick.Obs)
	}
}
