package collect

import (
	"errors"
	"math"
	"slices"
	"testing"

	"optibfm/hal"
	"optibfm/hal/rover"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func newRover(t *testing.T) *rover.Rover {
	t.Helper()
	r, err := rover.New(rover.DefaultConfig())
	fatal.If(t, err)
	return r
}

func record(t *testing.T, transitions int, seed uint64) *Transitions {
	t.Helper()
	out, err := Record(newRover(t), transitions, seed)
	fatal.If(t, err)
	return out
}

func TestRecord_ExactNumberOfTransitions(t *testing.T) {
	for _, n := range []int{1, 9, 1000} {
		out := record(t, n, 1)
		if out.Len() != n || len(out.Obs) != 6*n || len(out.Action) != 2*n || len(out.NextObs) != 6*n {
			t.Errorf("want %d, found %d rows, %d obs, %d action, %d next_obs",
				n, out.Len(), len(out.Obs), len(out.Action), len(out.NextObs))
		}
	}
}

func TestRecord_NextObservationMatchesNextRow(t *testing.T) {
	out := record(t, 2000, 1)
	starts := 0
	for i := 1; i < out.Len(); i++ {
		chained := slices.Equal(out.NextObs[6*(i-1):6*i], out.Obs[6*i:6*(i+1)])
		if same := out.Episode[i] == out.Episode[i-1]; same != chained {
			t.Fatalf("row %d: same episode %t, chained %t", i, same, chained)
		}
		if !chained {
			starts++
		}
	}
	if starts < 2000/100-1 || starts > 2000/10 {
		t.Errorf("%d episodes in 2000 ticks, want them 10 to 100 ticks long", starts+1)
	}
}

func TestRecord_IsDeterministic(t *testing.T) {
	a, b, other := record(t, 500, 7), record(t, 500, 7), record(t, 500, 8)
	if !slices.Equal(a.NextObs, b.NextObs) || !slices.Equal(a.Action, b.Action) {
		t.Error("two recordings with one seed differ")
	}
	if slices.Equal(a.Action, other.Action) {
		t.Error("another seed gives the same actions")
	}
}

func TestRecord_CoversStates(t *testing.T) {
	out := record(t, 30_000, 1)
	var places [4][4]int
	var headings [8]int
	fast, reverse, left, right, wall := 0, 0, 0, 0, 0
	for o := range slices.Chunk(out.NextObs, 6) {
		cell := func(p float32) int { return min(max(int((p+1)*2), 0), 3) }
		places[cell(o[0])][cell(o[1])]++
		headings[min(int((math.Atan2(float64(o[3]), float64(o[2]))+math.Pi)/(math.Pi/4)), 7)]++
		count(&fast, o[4] > 0.8)
		count(&reverse, o[4] < -0.8)
		count(&left, o[5] > 0.8)
		count(&right, o[5] < -0.8)
		count(&wall, max(o[0], o[1], -o[0], -o[1]) > 0.9)
	}
	for _, row := range places {
		for _, n := range row {
			if n < 600 {
				t.Errorf("a sixteenth of the arena has %d of 30000 rows: %v", n, places)
			}
		}
	}
	for _, n := range headings {
		if n < 2000 {
			t.Errorf("an eighth of the headings has %d of 30000 rows: %v", n, headings)
		}
	}
	if fewest := min(fast, reverse, left, right, wall); fewest < 150 {
		t.Errorf("of 30000 rows: fast %d, reverse %d, left %d, right %d, at a wall %d",
			fast, reverse, left, right, wall)
	}
}

func count(n *int, yes bool) {
	if yes {
		*n++
	}
}

func TestRecord_ActionsWithinLimits(t *testing.T) {
	robot := &lopsided{Rover: newRover(t)}
	out, err := Record(robot, 5000, 0)
	fatal.If(t, err)
	low, high := out.Action[0], out.Action[0]
	for a := range slices.Chunk(out.Action, 2) {
		low, high = min(low, a[0]), max(high, a[0])
	}
	if low != 2 || high != 10 {
		t.Errorf("the first channel saw %g to %g, want its limits 2 and 10", low, high)
	}
}

// lopsided is a rover whose first channel is in other units.
type lopsided struct{ *rover.Rover }

func (l *lopsided) Spec() hal.Spec {
	spec := l.Rover.Spec()
	spec.Action = slices.Clone(spec.Action)
	spec.Action[0].Min, spec.Action[0].Max = 2, 10
	return spec
}

func (l *lopsided) Act(action []float32) error {
	return l.Rover.Act([]float32{(action[0] - 6) / 4, action[1]})
}

func TestRecord_HaltsRobot(t *testing.T) {
	r := newRover(t)
	fatal.If(t, errtest.Of(Record(r, 5, 0)))
	errtest.Is(t, r.Act([]float32{0, 0}), hal.ErrHalted, "Act")
}

func TestRecord_HaltsOnError(t *testing.T) {
	robot := &broken{Rover: newRover(t)}
	if out, err := Record(robot, 1_000_000, 0); !errors.Is(err, errBroken) || out != nil {
		t.Errorf("Record returned %v, %v", out, err)
	}
	if !robot.halted {
		t.Error("the robot was not halted")
	}
}

var errBroken = errors.New("broken")

// broken fails its tenth Act.
type broken struct {
	*rover.Rover
	acts   int
	halted bool
}

func (b *broken) Act(action []float32) error {
	if b.acts++; b.acts == 10 {
		return errBroken
	}
	return b.Rover.Act(action)
}

func (b *broken) Halt() error {
	b.halted = true
	return b.Rover.Halt()
}

func TestRecord_RefusesNoTransitions(t *testing.T) {
	errtest.NotNil(t, errtest.Of(Record(newRover(t), 0, 0)))
}
