package rover

import (
	"fmt"
	"math"
	"slices"
)

// Task is a reward of the observation.
type Task struct {
	Name        string
	Description string // one line
	reward      func(view) float64
}

// view is an observation with named fields. Lengths are in half arenas, speeds
// relative to the top speed.
type view struct {
	x, y     float64
	cos, sin float64 // of the heading
	speed    float64 // forward
	yaw      float64 // rate, counter-clockwise positive
}

func newView(obs []float32) view {
	return view{
		x: float64(obs[obsX]), y: float64(obs[obsY]),
		cos: float64(obs[obsCos]), sin: float64(obs[obsSin]),
		speed: float64(obs[obsSpeed]), yaw: float64(obs[obsYawRate]),
	}
}

// bump is a Gaussian of the given width, 1 at d = 0.
func bump(d, width float64) float64 { return math.Exp(-d * d / (2 * width * width)) }

// tasks shift the rewards for a place or for standing still to an average of about
// 0 over all states: an offset does not change the optimum, but z cannot represent
// a constant.
var tasks = []Task{
	{"corner", "stay in the north-east corner", func(v view) float64 {
		return bump(math.Hypot(v.x-0.9, v.y-0.9), 1) - 0.35
	}},
	{"far_corner", "stay in the south-west corner", func(v view) float64 {
		return bump(math.Hypot(v.x+0.9, v.y+0.9), 1) - 0.35
	}},
	{"south_wall", "keep to the south wall", func(v view) float64 {
		return -v.y
	}},
	{"centre", "stay in the middle of the arena", func(v view) float64 {
		return bump(math.Hypot(v.x, v.y), 0.6) - 0.25
	}},
	{"face_centre", "keep the middle of the arena ahead", func(v view) float64 {
		return -(v.x*v.cos + v.y*v.sin) / (math.Hypot(v.x, v.y) + 0.3)
	}},
	{"east", "look east and stand", func(v view) float64 {
		return v.cos * bump(v.speed, 0.5)
	}},
	{"north", "look north and stand", func(v view) float64 {
		return v.sin * bump(v.speed, 0.5)
	}},
	{"still", "stand still, anywhere", func(v view) float64 {
		return bump(math.Hypot(v.speed, v.yaw), 0.3) - 0.5
	}},
	{"spin", "turn left on the spot, fast", func(v view) float64 {
		return v.yaw
	}},
	{"spin_right", "turn right on the spot, fast", func(v view) float64 {
		return -v.yaw
	}},
	{"fast", "drive forward fast, wherever", func(v view) float64 {
		return v.speed
	}},
	{"circle", "drive small circles, counter-clockwise", func(v view) float64 {
		return bump(math.Hypot(v.speed-0.6, v.yaw-0.4), 0.4)
	}},
	{"wall", "drive along the walls", func(v view) float64 {
		return bump(max(math.Abs(v.x), math.Abs(v.y))-0.9, 0.25) * max(v.speed, 0)
	}},
}

// Tasks lists the tasks.
func Tasks() []Task { return slices.Clone(tasks) }

func findTask(name string) (Task, bool) {
	i := slices.IndexFunc(tasks, func(t Task) bool { return t.Name == name })
	if i < 0 {
		return Task{}, false
	}
	return tasks[i], true
}

// Reward returns a task's reward of an observation of length 6. Without sensor
// noise it is in [-1, 1].
func Reward(task string, obs []float32) (float64, error) {
	t, ok := findTask(task)
	if !ok {
		return 0, unknownTask(task)
	}
	if len(obs) != obsLen {
		return 0, fmt.Errorf("rover: reward: wrong number of observation channels (%d, want %d)", len(obs), obsLen)
	}
	return t.reward(newView(obs)), nil
}
