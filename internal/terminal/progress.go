package terminal

import (
	"fmt"
	"strings"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/ipc"
	"optibfm/internal/setup"
	"optibfm/internal/taskstore"
	"optibfm/rewardsrc"
)

// Progress describes to a person which saved task a robot follows and how well it knows its task.
// Call Event for each event of the run and Tick for each tick, in their order.
type Progress struct {
	control controller.Config
	fixed   savedTask // of the strategy fixed

	saved, former savedTask // whose labels the belief has; before the task changed
	taught        bool      // the belief has a label of the run
	vetted        bool      // the robot follows the first vetted task until a label
}

// savedTask is the name of a saved task, "" for none.
type savedTask string

// NewProgress returns the progress before the first tick of a run.
func NewProgress(s *setup.Session) Progress {
	p := Progress{control: s.File.Controller, saved: savedTask(s.Began)}
	p.vetted = p.control.Explore.UntilLabel
	if p.control.Strategy == controller.Fixed {
		p.fixed = savedTask(s.File.Run.StartTask)
	}
	return p
}

// Event notes a switch of the task.
func (p *Progress) Event(e flightlog.Event) {
	if name, ok := e.Fields["task"]; ok {
		p.saved, p.former, p.taught = savedTask(strings.TrimPrefix(name, ipc.NewTask)), "", false
	}
}

// Tick notes the labels of a tick, and a change of the task by labels.
func (p *Progress) Tick(t *controller.Tick) {
	if t.Flags.Has(controller.FlagSwitched) && t.Counted == 0 {
		p.vetted = p.control.Explore.UntilLabel
	}
	for i := range t.NumLabels {
		if l := &t.Labels[i]; l.Kind == rewardsrc.Keep && l.Outcome == controller.Applied {
			p.saved, p.former = p.former, ""
		}
	}
	if t.Taught() {
		p.taught, p.vetted = true, false
	}
	if t.Flags.Has(controller.FlagChanged) {
		p.saved, p.former = "", p.saved
	}
}

// Follows returns the saved task that the robot follows, in words such as "the saved task walk". It
// is empty without one, and once a label of the run has a part in what the robot follows.
func (p *Progress) Follows() string {
	switch {
	case p.fixed != "":
		return p.fixed.String()
	case p.vetted:
		return savedTask(p.control.Explore.Tasks[0]).String() + " until the first label"
	case p.saved == "" || p.taught || p.control.Strategy == controller.Fixed || p.control.Strategy == controller.Random:
		return ""
	}
	return p.saved.String()
}

func (t savedTask) String() string {
	if t == taskstore.Last {
		return "the task of the last run"
	}
	return "the saved task " + string(t)
}

// Known describes how well the robot knows the task after a tick. part is the filled part of a bar,
// in [0, 1].
func (p *Progress) Known(t *controller.Tick) (text string, part float64) {
	switch {
	case t.Flags.Has(controller.FlagLearnt):
		return "It seems to have learnt it: watch it.", 1
	case t.Evidence.Measured():
		text := t.Evidence.Judgement(t.Known)
		return strings.ToUpper(text[:1]) + text[1:] + ".", max(0, min(t.Evidence.Skill, 1))
	case t.Counted == 0 && p.fixed != "":
		return "It has no label of this task.", 0
	case t.Counted == 0:
		return "It knows nothing of the task yet.", 0
	}
	saved, measured := "", "Too early to tell how well it knows."
	if p.saved != "" {
		saved = fmt.Sprintf("It has the labels of %v. ", p.saved)
		measured = "Progress is measured after a few good and bad labels."
	}
	if !p.control.Gate.Predicts() {
		measured = "It does not estimate how well it knows."
	}
	return saved + measured, 0
}
