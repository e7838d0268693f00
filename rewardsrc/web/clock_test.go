package web

import (
	"math/rand/v2"
	"testing"
	"time"
)

// exchangeOnce runs an exchange with the given delays against a browser whose
// clock is offset behind the robot's.
func exchangeOnce(c *clock, id uint64, at, offset int64, there, back time.Duration) int64 {
	c.begin(id, at)
	browser := at + int64(there) - offset
	done := at + int64(there+back)
	c.finish(id, browser, done)
	return done
}

func TestClock_ErrorWithinBound(t *testing.T) {
	const offset = int64(123456789012)
	random := rand.New(rand.NewPCG(1, 2))
	for run := range 200 {
		var c clock
		at := int64(1e12)
		for id := range uint64(40) {
			there := time.Duration(1e6 + random.ExpFloat64()*20e6)
			back := time.Duration(1e6 + random.ExpFloat64()*20e6)
			at = exchangeOnce(&c, id+1, at, offset, there, back) + 2e9
			got, bound, ok := c.robotTime(at-offset, at)
			if err := got - at; !ok || max(err, -err) > bound {
				t.Fatalf("run %d, exchange %d: error %v, bound %v",
					run, id, time.Duration(err), time.Duration(bound))
			}
		}
	}
}

func TestClock_UsesShortestRoundTrip(t *testing.T) {
	var c clock
	exchangeOnce(&c, 1, 0, 0, 50*time.Millisecond, 0)
	exchangeOnce(&c, 2, 1e9, 0, time.Millisecond, time.Millisecond)
	exchangeOnce(&c, 3, 2e9, 0, 0, 90*time.Millisecond)
	if at, bound, _ := c.robotTime(3e9, 3e9); at != 3e9 || bound > 2e6 {
		t.Errorf("3 s is taken for %v ± %v, want exact within 2 ms", time.Duration(at), time.Duration(bound))
	}
}

func TestClock_RestartsAfterSleep(t *testing.T) {
	var c clock
	exchangeOnce(&c, 1, 0, 0, time.Millisecond, time.Millisecond)
	const slept = int64(30e9)
	exchangeOnce(&c, 2, 60e9, slept, 20*time.Millisecond, 20*time.Millisecond)
	at, bound, _ := c.robotTime(61e9-slept, 61e9)
	if wrong := at - 61e9; max(wrong, -wrong) > bound {
		t.Errorf("after a sleep of 30 s the clock is wrong by %v", time.Duration(wrong))
	}
}

func TestClock_IgnoresUnknownAnswer(t *testing.T) {
	var c clock
	c.begin(3, 100)
	for _, id := range []uint64{0, 2, 11} {
		if _, ok := c.finish(id, 5, 200); ok {
			t.Errorf("exchange %d was taken", id)
		}
	}
	if _, _, ok := c.robotTime(5, 200); ok {
		t.Error("the clock is known without an exchange")
	}
	if _, ok := c.finish(3, 5, 200); !ok {
		t.Error("exchange 3 was not taken")
	}
	if _, ok := c.finish(3, 5, 300); ok {
		t.Error("exchange 3 was taken twice")
	}
}
