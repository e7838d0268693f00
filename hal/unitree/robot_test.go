package unitree_test

import (
	"testing"
	"time"

	"optibfm/hal/unitree"
	"optibfm/internal/fatal"
)

func TestRobot_FollowsGoalsAndDampsWhenHalted(t *testing.T) {
	for _, model := range []string{unitree.Go2, unitree.G1} {
		t.Run(model, func(t *testing.T) {
			c := newConfig(model)
			sim := newRig(t, c)
			r := open(t, c)
			stop, damps := sim.watch(t, model)
			action := arm(t, r)
			begin := action[0]
			for range 50 {
				settle(t, r, "a state", func(err error) bool { return err == nil })
				action[0] += 0.004
				fatal.If(t, r.Act(action))
				time.Sleep(period)
			}
			fatal.If(t, r.Halt())
			wantDamped(t, damps)
			time.Sleep(100 * time.Millisecond)
			seen := stop()
			last := seen[len(seen)-1]
			moved, damping := seen[0].first, 0
			for _, w := range seen {
				if w.damping {
					damping++
				} else if damping > 0 {
					t.Fatal("a command that does not damp after the halt")
				}
				if !w.damping {
					if step := w.first - moved; step > 0.02 || step < -0.02 {
						t.Errorf("a step of %g rad within 2 ms", step)
					}
					moved = w.first
				}
			}
			t.Logf("%d commands, %d damp; from %.3f to %.3f", len(seen), damping, seen[0].first, moved)
			if !last.damping || damping < 10 || moved-seen[0].first < 0.15 || seen[0].first-begin > 0.02 {
				t.Errorf("from %g (measured %g) to %g, %d damp, the last %v", seen[0].first, begin, moved, damping, last)
			}
			obeyed, rejected := sim.Counts()
			if obeyed < 100 || rejected > 0 {
				t.Errorf("the robot obeyed %d commands and rejected %d", obeyed, rejected)
			}
		})
	}
}
