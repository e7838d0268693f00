package eval

import (
	"optibfm/controller"
)

// scores computes the rows of a trial from its ticks.
type scores struct {
	run      Run
	base     Row     // fields that all rows share
	discount float64 // of the model's ψ; 0: unknown
	rows     []Row

	diagnosis *diagnosis // of the trial; nil: none

	steps    int     // taken so far
	returned float64 // sum of the episode's rewards
	promised float64 // sum of the scores of the episode's plans
	reward   float64 // sum of the rewards since the last row of MeasureReward
	lastStep int     // steps at that row
	labels   int
	asked    int
	budget   int // number of run.LabelBudgets reached
	learnt   bool
}

// add appends a row, or replaces the last row of the measure if x is the same. x does not change
// between the last state of an episode and the first state of the next one.
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

// addTick adds a tick of an armed agent.
func (s *scores) addTick(t *controller.Tick) {
	if t.Step == 0 {
		s.returned, s.promised = 0, 0
	} else {
		s.steps++
		s.returned += t.Reward
		s.reward += t.Reward
	}
	if !t.Flags.Has(controller.FlagEpisodeEnd) { // no action follows the last state
		s.promised += t.PlanScore
	}
	for i := range t.NumLabels {
		if l := &t.Labels[i]; l.Outcome == controller.Applied && l.Kind.Teaches() {
			s.labels++
		}
	}
	if t.Flags.Has(controller.FlagAsked) {
		s.asked++
	}
	s.addPeriodic()
	s.addDiagnosis()
	s.addBudgets()
	s.addLearnt(t)
	if t.Flags.Has(controller.FlagChanged) {
		s.add(MeasureChanged, float64(s.steps), t.Evidence.Change)
	}
	if t.Flags.Has(controller.FlagEpisodeEnd) {
		s.add(MeasureReturn, float64(t.Episode), s.returned)
		s.addPromised(t)
		s.addKnown(t)
	}
}

// addPromised adds the row of MeasurePromised. A plan's score is a discounted sum of future
// rewards, with a total weight of 1/(1-discount).
func (s *scores) addPromised(t *controller.Tick) {
	if s.promised != 0 && s.discount > 0 {
		s.add(MeasurePromised, float64(t.Episode), s.promised*(1-s.discount))
	}
}

// addKnown adds the rows of what the robot says about itself.
func (s *scores) addKnown(t *controller.Tick) {
	if t.Known.Known() {
		s.add(MeasureKnown, float64(t.Episode), t.Known.Low)
		s.add(MeasureKnownHigh, float64(t.Episode), t.Known.High)
	}
	if e := t.Evidence; e.SkillError > 0 {
		s.add(MeasureSkill, float64(t.Episode), e.Skill-e.SkillError)
	}
}

func (s *scores) addPeriodic() {
	if n := s.run.RewardEvery; n > 0 && s.steps > s.lastStep && s.steps%n == 0 {
		s.addProgress()
	}
}

// addDiagnosis adds the rows of the last search.
func (s *scores) addDiagnosis() {
	d := s.diagnosis
	if d == nil || !d.searched || s.steps%s.run.DiagnoseEvery != 0 {
		return
	}
	s.add(MeasureTaskDistance, float64(s.steps), d.distance)
	s.add(MeasureTaskScore, float64(s.steps), d.taskScore)
	s.add(MeasurePlanScore, float64(s.steps), d.planScore)
}

// addBudgets adds rows at the step at which the labels reach a budget.
func (s *scores) addBudgets() {
	for s.budget < len(s.run.LabelBudgets) && s.labels >= s.run.LabelBudgets[s.budget] {
		s.budget++
		s.addProgress()
	}
}

// addLearnt adds rows at the step at which the robot announces that it has learnt the task, or
// withdraws that.
func (s *scores) addLearnt(t *controller.Tick) {
	learnt := t.Flags.Has(controller.FlagLearnt)
	if learnt == s.learnt {
		return
	}
	s.learnt = learnt
	value := 0.0
	if learnt {
		value = 1
	}
	s.add(MeasureLearnt, float64(s.steps), value)
	s.addProgress()
}

// exhausted reports whether the labels reached the largest budget.
func (s *scores) exhausted() bool {
	n := len(s.run.LabelBudgets)
	return n > 0 && s.budget == n
}

// addProgress adds the rows of the steps so far.
func (s *scores) addProgress() {
	if s.steps > s.lastStep {
		s.add(MeasureReward, float64(s.steps), s.reward/float64(s.steps-s.lastStep))
		s.reward, s.lastStep = 0, s.steps
	}
	s.add(MeasureLabels, float64(s.steps), float64(s.labels))
	s.add(MeasureAsked, float64(s.steps), float64(s.asked))
}

// finish adds the last rows. The row of MeasureHz comes last and marks a complete trial.
func (s *scores) finish(ticks uint64, decisionSeconds float64) {
	s.addProgress()
	hz := 0.0
	if decisionSeconds > 0 {
		hz = float64(ticks) / decisionSeconds
	}
	s.add(MeasureHz, float64(ticks), hz)
}
