package eval

import (
	"testing"

	"optibfm/controller"
	"optibfm/rewardsrc"
)

// labelledTick is a tick with one label that was used.
func labelledTick(step uint32) *controller.Tick {
	t := controller.NewTick(controller.Shape{Obs: 1, Action: 1, Latent: 1})
	t.Step, t.Reward, t.NumLabels = step, 1, 1
	t.Labels[0] = controller.AppliedLabel{Kind: rewardsrc.Value, Outcome: controller.Applied}
	return t
}

func TestAMeasureHasOneRowAtAnXTheNewest(t *testing.T) {
	for name, budget := range map[string]int{"on a reset": 5, "on a periodic tick": 4, "on another tick": 3} {
		s := &scores{run: Run{RewardEvery: 3, LabelBudgets: []int{budget, 100}}}
		for range 3 { // episodes of 3 steps, 4 states: all are labelled
			for step := range uint32(4) {
				s.tick(labelledTick(step))
			}
		}
		s.finish(12, 1)
		type place struct {
			measure string
			x       float64
		}
		found := map[place]float64{}
		for _, r := range s.rows {
			at := place{r.Measure, r.X}
			if was, there := found[at]; there {
				t.Errorf("budget reached %s: %v at %v is %v and %v", name, r.Measure, r.X, was, r.Value)
			}
			found[at] = r.Value
		}
		if got := found[place{MeasureLabels, 3}]; name == "on a reset" && got != 5 {
			t.Errorf("%v labels at 3 steps, want those of the reset state too: 5", got)
		}
		if last := s.rows[len(s.rows)-1]; last.Measure != MeasureHz {
			t.Errorf("the last row is of %s", last.Measure)
		}
	}
}
