package recorder

import (
	"slices"
	"strings"
	"testing"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/rewardsrc"
)

// eventsOnly is a Display that keeps the events.
type eventsOnly struct{ texts []string }

func (d *eventsOnly) Outcome(*controller.Tick, *controller.AppliedLabel) {}
func (d *eventsOnly) Tick(*controller.Tick)                              {}
func (d *eventsOnly) Label(rewardsrc.Label, error)                       {}
func (d *eventsOnly) Event(e flightlog.Event)                            { d.texts = append(d.texts, e.Text) }

func TestRecorder_AnnouncesALearntTaskOnce(t *testing.T) {
	shape := controller.Shape{Obs: 1, Action: 1, Latent: 1}
	display := &eventsOnly{}
	r := Recorder{Statistics: NewStatistics(shape), Display: display}
	tick := controller.NewTick(shape)
	for i, learnt := range []bool{false, true, true, true, false, false, true, false} {
		tick.Index, tick.Elapsed, tick.Flags = uint64(i), 1, 0
		tick.Known = controller.Interval{Low: 0.75, Middle: 0.8, High: 0.95}
		tick.Predicted = controller.Predicted{Labels: 9, Of: 10}
		if learnt {
			tick.Flags = controller.FlagLearnt
		}
		if i == 7 {
			tick.Evidence.Shortfall = 0.8
		}
		r.Tick(tick)
	}
	starts := []string{
		"it seems to have learnt the task: watch it; 75 to 95% of the attainable reward, 9 of the last 10",
		"no longer learnt: 1 of the last 10",
		"it seems to have learnt the task: watch it",
		"no longer learnt: it expects bad labels",
	}
	if !slices.EqualFunc(display.texts, starts, strings.HasPrefix) {
		t.Errorf("events %q", display.texts)
	}
}

func TestRecorder_ReportsAChangedTaskAndTheAnswer(t *testing.T) {
	shape := controller.Shape{Obs: 1, Action: 1, Latent: 1}
	display := &eventsOnly{}
	r := Recorder{Statistics: NewStatistics(shape), Display: display, KeepKey: "press k"}
	tick := controller.NewTick(shape)
	for i, flags := range []controller.Flags{0, controller.FlagChanged, controller.FlagKeepable} {
		tick.Index, tick.Elapsed, tick.Flags = uint64(i), 1, flags
		tick.Evidence = controller.Evidence{Change: 9, Labels: 12}
		if flags == controller.FlagKeepable {
			tick.NumLabels, tick.Labels[0] = 1, controller.AppliedLabel{Kind: rewardsrc.Keep, Outcome: controller.Applied}
		}
		r.Tick(tick)
	}
	parts := []string{"last 12 labels alone predicts them better (evidence 9.0 nats)", "the operator kept the former task"}
	if !slices.EqualFunc(display.texts, parts, strings.Contains) || !strings.HasSuffix(display.texts[0], "press k") {
		t.Errorf("events %q", display.texts)
	}
}

// A learnt task that begins again is not contradicted by its labels: there are none yet.
func TestRecorder_AChangedOrKeptTaskIsNotContradicted(t *testing.T) {
	shape := controller.Shape{Obs: 1, Action: 1, Latent: 1}
	display := &eventsOnly{}
	r := Recorder{Statistics: NewStatistics(shape), Display: display}
	tick := controller.NewTick(shape)
	for i, flags := range []controller.Flags{
		controller.FlagLearnt, controller.FlagLearnt | controller.FlagChanged, controller.FlagKeepable,
		controller.FlagKeepable | controller.FlagLearnt, 0, controller.FlagLearnt, 0,
	} {
		tick.Index, tick.Elapsed, tick.Flags, tick.NumLabels = uint64(i), 1, flags, 0
		if i == 4 {
			tick.NumLabels, tick.Labels[0] = 1, controller.AppliedLabel{Kind: rewardsrc.Keep, Outcome: controller.Applied}
		}
		r.Tick(tick)
	}
	starts := []string{
		"it seems to have learnt", "it seems that the task changed", "it seems to have learnt",
		"the operator kept", "it seems to have learnt", "no longer learnt",
	}
	if !slices.EqualFunc(display.texts, starts, strings.HasPrefix) {
		t.Errorf("events %q", display.texts)
	}
}
