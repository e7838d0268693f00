package recorder

import (
	"fmt"
	"slices"
	"time"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/ipc"
	"optibfm/rewardsrc"
)

// Display shows a run to a person. The recorder calls all methods from one goroutine. None may wait
// for a terminal or a network.
type Display interface {
	Outcome(t *controller.Tick, l *controller.AppliedLabel) // what a tick did with a label; before Tick
	Tick(t *controller.Tick)                                // after the statistics; t is valid during the call
	Label(l rewardsrc.Label, err error)                     // a label is durable, or refused
	Event(e flightlog.Event)
}

// Recorder takes each tick of a run once and hands it to everything that records or shows the run:
// the log, the statistics, the display and the belief saver. The host process and lockstep use the
// same one. It is for one goroutine.
type Recorder struct {
	Statistics *Statistics
	Log        *flightlog.Writer // nil: the run is not recorded
	Display    Display
	Learnt     func(tick uint64) // a label or a switch of the task changed the belief in this tick; may be nil
	Steps      *ipc.HostSteps    // nil in lockstep
	KeepKey    string            // how the operator keeps the former task

	learnt  bool // in the tick before
	changed bool // the tick before had FlagChanged: the robot begins the task again

	// Err is the first failure of the log. The recorder shows it and continues: a full disk does
	// not stop a robot, but the intake refuses labels.
	Err error
}

// Tick records and shows a tick.
func (r *Recorder) Tick(t *controller.Tick) {
	r.Steps.Note(ipc.LogWrite, true)
	if r.Log != nil {
		r.check(r.Log.WriteTick(t))
	}
	r.Steps.Note(ipc.LogWrite, false)
	complete := r.Statistics.Dropped == 0
	r.Statistics.Add(t)
	r.Steps.Note(ipc.DisplayUpdate, true)
	if complete && r.Statistics.Dropped > 0 {
		r.Display.Event(flightlog.Event{At: t.Done, Level: flightlog.Warn, Text: "records of ticks are missing: " +
			"the disk or the output is slower than the robot, which continues"})
	}
	r.outcomes(t)
	r.announce(t)
	r.Display.Tick(t)
	r.Steps.Note(ipc.DisplayUpdate, false)
}

// announceChange records and shows that the task seems to have changed, and the operator's answer.
// It reports whether the belief differs from that of the tick before.
func (r *Recorder) announceChange(t *controller.Tick) (another bool) {
	another = r.changed || t.Flags.Has(controller.FlagSwitched)
	r.changed = t.Flags.Has(controller.FlagChanged)
	e := flightlog.Event{At: t.Done, Level: flightlog.Info}
	if r.changed {
		e.Level = flightlog.Warn
		e.Text = fmt.Sprintf("it seems that the task changed: a belief of the last %d labels alone predicts them better "+
			"(evidence %.1f nats); the robot learns it as a new task; to keep the former one, within a minute: %s",
			t.Evidence.Labels, t.Evidence.Change, r.KeepKey)
		r.Event(e)
	}
	for i := range t.NumLabels {
		if l := &t.Labels[i]; l.Kind == rewardsrc.Keep && l.Outcome == controller.Applied {
			another = true
			e.Level = flightlog.Info
			e.Text = "the operator kept the former task: its belief is back, with all labels since"
			r.Event(e)
		}
	}
	return another
}

// announce records and shows that the task is learnt, or why not any longer.
func (r *Recorder) announce(t *controller.Tick) {
	another := r.announceChange(t)
	learnt := t.Flags.Has(controller.FlagLearnt)
	was := r.learnt
	r.learnt = learnt
	if learnt == was || another {
		return
	}
	e := flightlog.Event{At: t.Done, Level: flightlog.Info, Text: fmt.Sprintf(
		"it seems to have learnt the task: watch it; %.0f to %.0f%% of the attainable reward, "+
			"%d of the last %d labels predicted",
		100*t.Known.Low, 100*t.Known.High, t.Predicted.Labels, t.Predicted.Of)}
	if !learnt {
		e.Level = flightlog.Warn
		e.Text = fmt.Sprintf("no longer learnt: %d of the last %d labels contradict it; "+
			"is the task a new one? Continue to label it", t.Predicted.Of-t.Predicted.Labels, t.Predicted.Of)
		if t.Evidence.Poor() {
			e.Text = "no longer learnt: it expects bad labels; continue to label it"
		}
	}
	r.Event(e)
}

func (r *Recorder) outcomes(t *controller.Tick) {
	learnt := t.Flags.Has(controller.FlagSwitched)
	for i := range t.NumLabels {
		l := &t.Labels[i]
		learnt = learnt || l.Outcome == controller.Applied
		r.Statistics.addLabel(l)
		r.Display.Outcome(t, l)
	}
	if learnt && r.Learnt != nil {
		r.Learnt(t.Index)
	}
}

// Event records and shows an event.
func (r *Recorder) Event(e flightlog.Event) {
	r.Display.Event(e)
	r.LogEvent(e)
}

// LogEvent records an event that is shown in another way.
func (r *Recorder) LogEvent(e flightlog.Event) {
	if r.Log != nil {
		r.check(r.Log.WriteEvent(e))
	}
}

// Plan records a plan.
func (r *Recorder) Plan(p flightlog.Plan) {
	if r.Log != nil {
		r.check(r.Log.WritePlan(p))
	}
}

// Snapshot records a belief.
func (r *Recorder) Snapshot(s flightlog.Snapshot) {
	if r.Log != nil {
		r.check(r.Log.WriteSnapshot(s))
	}
}

// Switch records a switch of the task, which has a snapshot.
func (r *Recorder) Switch(s flightlog.Snapshot, at int64) {
	r.Snapshot(s)
	text := "switched to the task " + s.Task
	if s.Task == ipc.NewTask {
		text = "began a task without labels"
	}
	r.Event(flightlog.Event{
		At: at, Level: flightlog.Info, Text: text,
		Fields: map[string]string{"task": s.Task, "tick": fmt.Sprint(s.Next)},
	})
}

// Request records a request.
func (r *Recorder) Request(q rewardsrc.Request) {
	r.Statistics.AddRequest(q)
	if r.Log != nil {
		r.check(r.Log.WriteRequest(q))
	}
}

func (r *Recorder) check(err error) {
	if err == nil || r.Err != nil {
		return
	}
	r.Err = err
	r.Display.Event(flightlog.Event{At: r.Statistics.Last.Done, Level: flightlog.Error, Text: err.Error()})
}

// Offer sends without waiting. It drops v if the channel is full.
func Offer[T any](c chan T, v T) {
	select {
	case c <- v:
	default:
	}
}

// PlanEntry returns a plan as the log keeps it, published at a time of the log's clock. It copies
// z.
func PlanEntry(p *controller.Plan, at int64, strategy string) flightlog.Plan {
	return flightlog.Plan{
		Tick: p.Tick, At: at, Took: time.Duration(p.ElapsedNS),
		Score: p.Score, Strategy: strategy, Z: slices.Clone(p.Z),
	}
}
