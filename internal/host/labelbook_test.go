package host

import (
	"math"
	"slices"
	"testing"

	"optibfm/internal/taskstore"
)

func TestLabelBook_FollowsSwitchesOfTheTask(t *testing.T) {
	start := taskstore.Session{ID: "start-0", Until: 7}
	other := taskstore.Session{ID: "other-0", Until: 9}
	var k labelBook
	k.begin(taskstore.Lineage{Run: "run", Before: []taskstore.Session{start}})
	to := func(sessions ...taskstore.Session) func() []taskstore.Session {
		return func() []taskstore.Session { return append([]taskstore.Session{}, sessions...) }
	}
	k.switched(10, to(other))       // to another task before tick 10
	k.switched(20, to())            // to a new one
	k.switched(30, unknownSessions) // the task changed
	k.kept(40)                      // it did not
	k.switched(50, unknownSessions) // to a task of unknown sessions
	k.took(math.MaxUint64)
	own := func(began, until uint64) taskstore.Session {
		return taskstore.Lineage{Run: "run", Before: []taskstore.Session{}}.Sessions(began, until)[0]
	}
	for until, want := range map[uint64][]taskstore.Session{
		0: {start, own(0, 0)}, 10: {start, own(0, 10)}, 11: {other, own(10, 11)}, 20: {other, own(10, 20)},
		21: {own(20, 21)}, 30: {own(20, 30)}, 31: nil, 40: nil, 41: {own(20, 41)}, 51: nil,
	} {
		if got := k.sessions(until); !slices.Equal(got, want) {
			t.Errorf("before tick %d: %v, want %v", until, got, want)
		}
	}
}

func TestLabelBook_KeepsOnlyTheNewestParts(t *testing.T) {
	var k labelBook
	k.begin(taskstore.Lineage{Run: "run", Before: []taskstore.Session{}})
	k.took(math.MaxUint64)
	for i := range uint64(100) {
		k.switched(i+1, func() []taskstore.Session { return []taskstore.Session{} })
	}
	if len(k.parts) > maxParts || k.sessions(5) != nil || len(k.sessions(101)) != 1 {
		t.Errorf("%d parts, %v, %v", len(k.parts), k.sessions(5), k.sessions(101))
	}
}

// A planner can be ahead of the recorder, which has not seen a switch.
func TestLabelBook_DoesNotGuess(t *testing.T) {
	var k labelBook
	k.begin(taskstore.Lineage{Run: "run", Before: []taskstore.Session{}})
	k.took(5)
	if got := k.sessions(6); got != nil {
		t.Errorf("%v before the recorder took tick 5", got)
	}
	if got := k.sessions(5); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if got := (*labelBook)(nil).sessions(5); got != nil {
		t.Errorf("%v without a book", got)
	}
}
