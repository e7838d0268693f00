package eval

import (
	"optibfm/controller"
	"optibfm/rewardsrc"
)

// scores makes the rows of a trial from its ticks.
type scores struct {
	run      Run
	base     Row     // of all rows
	discount float64 // of the model's ψ; 0: unknown
	rows     []Row

	steps    int     // taken so far
	returned float64 // by the episode so far
	promised float64 // sum of the scores of its plans
	since    float64 // rewards since the last row of MeasureReward
	from     int     // steps at that row
	labels   int
	asked    int
	budget   int // number of exhausted run.LabelBudgets
}

// add appends a row. It replaces the row of the same measure at the same x: the first state of an episode
// is labelled without a step.
func (s *scores) add(measure string, x, value float64) {
	row := s.base
	row.Measure, row.X, row.Value = measure, x, value
	for i := len(s.rows) - 1; i >= 0; i-- {
		if s.rows[i].Measure != measure {
			continue
		}
		if s.rows[i].X == x {
			s.rows[i] = row
			return
		}
		break
	}
	s.rows = append(s.rows, row)
}

// tick adds a tick of an armed agent.
func (s *scores) tick(t *controller.Tick) {
	if t.Step == 0 {
		s.returned, s.promised = 0, 0
	} else {
		s.steps++
		s.returned += t.Reward
		s.since += t.Reward
	}
	if !t.Flags.Has(controller.FlagEpisodeEnd) { // no action follows the last state
		s.promised += t.PlanScore
	}
	for i := range t.NumLabels {
		if l := &t.Labels[i]; l.Outcome == controller.Applied && l.Kind == rewardsrc.Value {
			s.labels++
		}
	}
	if t.Flags.Has(controller.FlagAsked) {
		s.asked++
	}
	s.periodic()
	s.budgets()
	if t.Flags.Has(controller.FlagEpisodeEnd) {
		s.add(MeasureReturn, float64(t.Episode), s.returned)
		s.promise(t)
	}
}

// promise adds the row of MeasurePromised. A score is a discounted sum of future rewards, with a total
// weight of 1/(1-discount).
func (s *scores) promise(t *controller.Tick) {
	if s.promised != 0 && s.discount > 0 {
		s.add(MeasurePromised, float64(t.Episode), s.promised*(1-s.discount))
	}
}

func (s *scores) periodic() {
	if n := s.run.RewardEvery; n > 0 && s.steps > s.from && s.steps%n == 0 {
		s.progress()
	}
}

// budgets adds rows at the step at which a number of labels was reached.
func (s *scores) budgets() {
	for s.budget < len(s.run.LabelBudgets) && s.labels >= s.run.LabelBudgets[s.budget] {
		s.budget++
		s.progress()
	}
}

// exhausted reports whether the largest budget of labels is used up.
func (s *scores) exhausted() bool {
	n := len(s.run.LabelBudgets)
	return n > 0 && s.budget == n
}

// progress adds the rows of the steps so far.
func (s *scores) progress() {
	if s.steps > s.from {
		s.add(MeasureReward, float64(s.steps), s.since/float64(s.steps-s.from))
		s.since, s.from = 0, s.steps
	}
	s.add(MeasureLabels, float64(s.steps), float64(s.labels))
	s.add(MeasureAsked, float64(s.steps), float64(s.asked))
}

// finish adds the last rows. MeasureHz, the very last, marks a complete trial.
func (s *scores) finish(ticks uint64, deciding float64) {
	s.progress()
	hz := 0.0
	if deciding > 0 {
		hz = float64(ticks) / deciding
	}
	s.add(MeasureHz, float64(ticks), hz)
}
