package panel

import (
	"math"
	"testing"
)

const ms = int64(1e6)

func newStream(holdAfterMS int64) *stream {
	return &stream{interval: 100 * ms, holdAfter: holdAfterMS * ms, onStuck: func() {}}
}

// play calls due at the times that wake returns, and returns the times of labels
// in milliseconds.
func play(t *testing.T, s *stream, from, to int64) (at []int64) {
	t.Helper()
	for now := from; now < to; {
		if s.due(now) != 0 {
			at = append(at, now/ms)
		}
		next := s.wake(now)
		if next <= now {
			t.Fatalf("at %d the next call is at %d: a busy loop", now, next)
		}
		now = next
	}
	return at
}

func TestStream_KeepsIntervalAfterDelay(t *testing.T) {
	s := newStream(0)
	s.axis = 0.5
	if got := play(t, s, 0, 350*ms); len(got) != 4 || got[3] != 300 {
		t.Errorf("labels at %v ms", got)
	}
	if s.due(990*ms) == 0 {
		t.Fatal("nothing after a pause")
	}
	if next := s.wake(990 * ms); next != 1090*ms {
		t.Errorf("next at %d ms", next/ms)
	}
	s.axis = 0
	if s.due(2000*ms) != 0 || s.wake(2000*ms) != math.MaxInt64 {
		t.Error("centred, it still gives labels or a time to wake")
	}
}

func TestStream_ButtonStreamsAfterHold(t *testing.T) {
	s := newStream(400)
	s.press(Bad, true, 0)
	if got := play(t, s, 0, 650*ms); len(got) != 3 || got[0] != 400 {
		t.Errorf("labels at %v ms", got)
	}
	if s.level != -1 {
		t.Errorf("level %g", s.level)
	}
	for _, r := range []Role{Better, Worse, Goal, CantTell, Undo} { // cannot be held
		s.press(r, true, 650*ms)
	}
	s.press(Bad, false, 650*ms)
	if got := play(t, s, 650*ms, 5000*ms); got != nil {
		t.Errorf("labels at %v ms", got)
	}
}

func TestStream_GoodAndBadCancelOut(t *testing.T) {
	s := newStream(100)
	s.press(Good, true, 0)
	s.press(Bad, true, 0)
	if got := play(t, s, 0, 1000*ms); got != nil {
		t.Errorf("labels at %v ms", got)
	}
}

func TestStream_StuckAfterAMinute(t *testing.T) {
	s := newStream(0)
	told := 0
	s.onStuck = func() { told++ }
	s.axis = 1
	if got := play(t, s, 0, 10*longest); len(got) != int(longest/s.interval) || told != 1 {
		t.Errorf("%d labels, told %d times", len(got), told)
	}
	s.axis = 0.9 // still held
	if s.due(10*longest) != 0 {
		t.Error("it counts before its release")
	}
	s.axis = 0
	s.due(10*longest + 1)
	s.axis = 1
	if s.due(10*longest+2) == 0 {
		t.Error("it does not count again")
	}
}

func TestStream_PausesWithoutSignOfLife(t *testing.T) {
	s := newStream(0)
	told := 0
	s.quiet, s.onQuiet = 1000*ms, func() { told++ }
	s.hear(0)
	s.axis = 1
	if got := play(t, s, 0, 5000*ms); len(got) != 10 || told != 1 {
		t.Errorf("labels at %v ms, told %d times", got, told)
	}
	s.hear(5000 * ms) // still held
	if got := play(t, s, 5000*ms, 9000*ms); len(got) != 10 || told != 2 {
		t.Errorf("after a sign of life: labels at %v ms, told %d times", got, told)
	}
	s.axis = 0
	s.due(9000 * ms)
	s.hear(9100 * ms)
	s.axis = 1
	if s.due(9100*ms) == 0 {
		t.Error("it does not count after its release")
	}
}

func FuzzStream(f *testing.F) {
	f.Add([]byte{1, 200, 2, 3}, uint16(300))
	f.Add([]byte{byte(Better), byte(Goal), 255, 255, 64 + byte(Better), 200}, uint16(30))
	f.Fuzz(func(t *testing.T, acts []byte, hold uint16) {
		s := newStream(int64(hold))
		now := int64(0)
		for _, act := range acts {
			switch r := Role(act % NumRoles); {
			case act < 64:
				s.press(r, true, now)
			case act < 128:
				s.press(r, false, now)
			case act < 192:
				s.axis = float64(int(act)-160) / 32
			default:
				now += int64(act-191) * 7 * ms
			}
			if level := s.due(now); math.Abs(level) > 1 {
				t.Fatalf("level %g", level)
			}
			if next := s.wake(now); next < now {
				t.Fatalf("at %d the next call is at %d", now, next)
			}
			if level := s.due(now); level != 0 {
				t.Fatalf("two labels at one moment: %g", level)
			}
		}
	})
}
