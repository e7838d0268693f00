package rover

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// seen is an observation without noise.
func seen(x, y, heading, speed, yaw float64) []float32 {
	sin, cos := math.Sincos(heading)
	return []float32{float32(x), float32(y), float32(cos), float32(sin), float32(speed), float32(yaw)}
}

func reward(t *testing.T, task string, obs []float32) float64 {
	t.Helper()
	r, err := Reward(task, obs)
	fatal.If(t, err)
	return r
}

func TestTask_RewardsItsDescription(t *testing.T) {
	const north, west, south = math.Pi / 2, math.Pi, -math.Pi / 2
	cases := []struct {
		task          string
		better, worse []float32
	}{
		{"corner", seen(0.9, 0.9, 0, 0, 0), seen(0, 0, 0, 0, 0)},
		{"far_corner", seen(-0.9, -0.9, 0, 0, 0), seen(0.9, 0.9, 0, 0, 0)},
		{"centre", seen(0, 0, 1, 0, 0), seen(0, 0.8, 1, 0, 0)},
		{"still", seen(0.5, 0.2, 1, 0, 0), seen(0.5, 0.2, 1, 0.5, 0)},
		{"still", seen(0.5, 0.2, 1, 0, 0), seen(0.5, 0.2, 1, 0, -0.5)},
		{"east", seen(0, 0, 0, 0, 0), seen(0, 0, north, 0, 0)},
		{"east", seen(0, 0, 0, 0, 0), seen(0, 0, 0, 1, 0)},
		{"spin", seen(0, 0, 0, 0, 1), seen(0, 0, 0, 0, -1)},
		{"spin_right", seen(0, 0, 0, 0, -1), seen(0, 0, 0, 0, 1)},
		{"fast", seen(0, 0, 2, 1, 0), seen(0, 0, 2, 0.2, 0)},
		{"circle", seen(0, 0, 0, 0.6, 0.4), seen(0, 0, 0, 0.6, -0.4)},
		{"circle", seen(0, 0, 0, 0.6, 0.4), seen(0, 0, 0, 0, 0.4)},
		{"north", seen(0, 0, north, 0, 0), seen(0, 0, south, 0, 0)},
		{"wall", seen(0.9, 0, north, 1, 0), seen(0, 0, north, 1, 0)},
		{"wall", seen(0, -0.9, 0, 1, 0), seen(0, -0.9, 0, 0, 0)},
		{"south_wall", seen(0.3, -0.9, 0, 0, 0), seen(0.3, 0.5, 0, 0, 0)},
		{"face_centre", seen(0.8, 0, west, 0, 0), seen(0.8, 0, 0, 0, 0)},
		{"face_centre", seen(0, -0.8, north, 0, 0), seen(0, -0.8, south, 0, 0)},
	}
	covered := map[string]bool{}
	for _, c := range cases {
		covered[c.task] = true
		if better, worse := reward(t, c.task, c.better), reward(t, c.task, c.worse); better <= worse {
			t.Errorf("%s: %v earns %g, %v earns %g", c.task, c.better, better, c.worse, worse)
		}
	}
	for _, task := range Tasks() {
		if !covered[task.Name] {
			t.Errorf("task %s is not tested", task.Name)
		}
	}
}

func TestTask_RewardsStayWithinOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	u := func() float64 { return 2*rng.Float64() - 1 }
	for range 2000 {
		obs := seen(u(), u(), 4*u(), u(), u())
		for _, task := range Tasks() {
			if r := reward(t, task.Name, obs); !(math.Abs(r) <= 1+1e-6) {
				t.Fatalf("%s: reward of %v is %g", task.Name, obs, r)
			}
		}
	}
}

func TestTask_UnknownNameListsTasks(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Task = "dance"
	_, newErr := New(cfg)
	_, rewardErr := Reward("dance", make([]float32, obsLen))
	for _, err := range []error{newErr, rewardErr} {
		if !errors.Is(err, ErrUnknownTask) {
			t.Fatalf("error is %v, want ErrUnknownTask", err)
		}
		for _, task := range Tasks() {
			if !strings.Contains(err.Error(), task.Name) {
				t.Errorf("error %q does not list %s", err, task.Name)
			}
		}
	}
}

func TestTasks_HaveUniqueNames(t *testing.T) {
	names := map[string]bool{}
	for _, task := range Tasks() {
		if names[task.Name] || task.Name == "" || task.Description == "" {
			t.Errorf("task %+v", task)
		}
		names[task.Name] = true
	}
}

func TestTask_RefusesWrongLength(t *testing.T) {
	errtest.NotNil(t, errtest.Of(Reward("spin", make([]float32, 7))), "seven channels were accepted")
}

func TestReward_IsOfLastSense(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Task = "spin"
	r := at(t, cfg, state{})
	if _, ok := r.Reward(); ok {
		t.Error("there is a reward before the first Sense")
	}
	obs := sense(t, r)
	before, ok := r.Reward()
	if !ok || before != reward(t, "spin", obs) {
		t.Errorf("reward is %g, %t", before, ok)
	}
	act(t, r, 5, -1, 1)
	if now, _ := r.Reward(); now != before {
		t.Error("the reward changed without a Sense")
	}
	sense(t, r)
	if now, _ := r.Reward(); now <= before {
		t.Errorf("reward is %g while spinning, was %g while stopped", now, before)
	}
	fatal.If(t, r.Reset(1))
	if _, ok := r.Reward(); ok {
		t.Error("an episode begins with the reward of the one before")
	}
}

func TestObservation_PoseInMetres(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Noise = Noise{}
	r := at(t, cfg, state{x: -1.2, y: 0.7, heading: -2})
	got, want := PoseFromObs(sense(t, r), cfg.ArenaM), r.Pose()
	near(t, "x", got.X, want.X, 1e-6)
	near(t, "y", got.Y, want.Y, 1e-6)
	near(t, "heading", got.Heading, want.Heading, 1e-6)
}
