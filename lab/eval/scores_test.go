package eval

import (
	"fmt"
	"slices"
	"strings"
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

func TestScores_KeepsTheNewestRowOfAnX(t *testing.T) {
	for name, budget := range map[string]int{"on a reset": 5, "on a periodic tick": 4, "on another tick": 3} {
		s := &scores{run: Run{RewardEvery: 3, LabelBudgets: []int{budget, 100}}}
		for range 3 { // episodes of 3 steps, 4 states: all are labelled
			for step := range uint32(4) {
				s.addTick(labelledTick(step))
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

func TestScores_PromisedIsInUnitsOfAReturn(t *testing.T) {
	episode := func(s *scores, number uint32, score float64) {
		for step, part := range []float64{0, 1, 2, 100} { // none acts on the last
			tick := labelledTick(uint32(step))
			tick.Episode, tick.PlanScore = number, part*score
			if step == 3 {
				tick.Flags |= controller.FlagEpisodeEnd
			}
			s.addTick(tick)
		}
	}
	promised := func(s *scores) (values []float64) {
		for _, r := range s.rows {
			if r.Measure == MeasurePromised {
				values = append(values, r.Value)
			}
		}
		return values
	}
	known := &scores{discount: 0.75}
	episode(known, 0, 4) // a reward of 1 for ever is worth 1/(1 - 0.75)
	episode(known, 1, 8)
	if got := promised(known); !slices.Equal(got, []float64{3, 6}) {
		t.Errorf("promised %v, want the rewards of three steps, and twice that", got)
	}
	unknown, without := &scores{}, &scores{discount: 0.75}
	episode(unknown, 0, 4)
	episode(without, 0, 0)
	if got := slices.Concat(promised(unknown), promised(without)); len(got) > 0 {
		t.Errorf("without a discount, or without scores, promised %v", got)
	}
}

func TestScores_KnownOnlyWithAnAppraisal(t *testing.T) {
	s := &scores{}
	for episode, known := range []float64{0, 0.25, 0.5} {
		tick := labelledTick(3)
		tick.Episode, tick.Flags = uint32(episode), controller.FlagEpisodeEnd
		tick.Known = controller.Interval{Low: known, Middle: known, High: 2 * known}
		tick.Evidence = controller.Evidence{Skill: 2 * known, SkillError: known / 2}
		s.addTick(tick)
	}
	var got []string
	for _, r := range s.rows {
		got = append(got, fmt.Sprint(r.Measure, " ", r.X, " ", r.Value))
	}
	want := []string{"known 1 0.25", "known_high 1 0.5", "skill 1 0.375", "known 2 0.5", "known_high 2 1", "skill 2 0.75"}
	got = slices.DeleteFunc(got, func(row string) bool { return strings.HasPrefix(row, "return") })
	if !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
}
