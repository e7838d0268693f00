package eval

import (
	"optibfm/controller"
	"optibfm/rewardsrc"
)

// scores turns the ticks of a trial into rows.
type scores struct {
	run      Run
	base     Row     // of all rows
	discount float64 // of the model's ψ; 0: not known
	rows     []Row

	steps    int     // that were taken
	returned float64 // by the episode so far
	promised float64 // the sum of its plans' scores
	since    float64 // rewards since the last row of MeasureReward
	from     int     // steps at that row
	labels   int
	asked    int
	budget   int // of run.LabelBudgets: how many are exhausted
}

// add gives a row. One of the same measure at the same x takes the place of the
// one before: a state after a reset is labelled, but no step led to it.
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

// tick takes a tick of an armed agent.
func (s *scores) tick(t *controller.Tick) {
	if t.Step == 0 {
		s.returned, s.promised = 0, 0
	} else {
		s.steps++
		s.returned += t.Reward
		s.since += t.Reward
	}
	if !t.Flags.Has(controller.FlagEpisodeEnd) { // nothing acts in an episode's last state
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

// promise gives the row of what the plans' scores amount to. A score is a sum of
// rewards to come that are discounted, which weighs 1/(1-discount) of them.
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

// budgets gives rows at the step in which a number of labels was reached.
func (s *scores) budgets() {
	for s.budget < len(s.run.LabelBudgets) && s.labels >= s.run.LabelBudgets[s.budget] {
		s.budget++
		s.progress()
	}
}

// exhausted tells whether the largest budget of labels is.
func (s *scores) exhausted() bool {
	n := len(s.run.LabelBudgets)
	return n > 0 && s.budget == n
}

// progress gives the rows of the steps so far.
func (s *scores) progress() {
	if s.steps > s.from {
		s.add(MeasureReward, float64(s.steps), s.since/float64(s.steps-s.from))
		s.since, s.from = 0, s.steps
	}
	s.add(MeasureLabels, float64(s.steps), float64(s.labels))
	s.add(MeasureAsked, float64(s.steps), float64(s.asked))
}

// finish closes the rows: the last one is MeasureHz, by which a whole trial is
// known.
func (s *scores) finish(ticks uint64, deciding float64) {
	s.progress()
	hz := 0.0
	if deciding > 0 {
		hz = float64(ticks) / deciding
	}
	s.add(MeasureHz, float64(ticks), hz)
}
