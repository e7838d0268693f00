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
			c.MaxRate = []float64{2}
			const largestStep = 2 * 0.01 // rad: a writer that was late moves as in 10 ms
			sim := newRig(t, c)
			r := open(t, c)
			w := sim.watch()
			action := arm(t, r)
			begin := action[0]
			for range 50 {
				settle(t, r, "a state", func(err error) bool { return err == nil })
				action[0] += 0.004
				fatal.If(t, r.Act(action))
				time.Sleep(period)
			}
			until(t, "the goal", func() bool {
				fatal.If(t, r.Act(action))
				last, _ := w.newest()
				obeyed, _ := sim.Counts()
				return last.first > begin+0.15 && obeyed >= 100
			})
			fatal.If(t, r.Halt())
			w.await(t, 10)
			seen := w.stop()
			moved, damping := seen[0].first, 0
			for _, w := range seen {
				if w.damping {
					damping++
				} else if damping > 0 {
					t.Fatal("a command that does not damp after the halt")
				}
				if !w.damping {
					if step := w.first - moved; step > largestStep+1e-4 || step < -largestStep-1e-4 {
						t.Errorf("a step of %g rad", step)
					}
					moved = w.first
				}
			}
			t.Logf("%d commands, %d damp; from %.3f to %.3f", len(seen), damping, seen[0].first, moved)
			if seen[0].first-begin > 0.02 {
				t.Errorf("from %g (measured %g)", seen[0].first, begin)
			}
			if _, rejected := sim.Counts(); rejected > 0 {
				t.Errorf("the robot rejected %d commands", rejected)
			}
		})
	}
}
