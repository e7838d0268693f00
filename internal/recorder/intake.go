package recorder

import (
	"errors"
	"fmt"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/rewardsrc"
)

// LabelIntake takes each label of each source: it admits the label, numbers it and makes it
// durable. Only then does it pass the label on and acknowledge it to the operator. It enforces the
// label mode and refuses labels about a stopped robot, from any source. Refused presses become
// events of the log.
type LabelIntake struct {
	Source   rewardsrc.Source
	recorder *Recorder
	lastID   uint64
	now      func() int64 // the clock of the labels

	answersOnly bool // operator.label_mode: per_request
	undoKeeps   bool // the device has no button to keep the former task: undo does
	keepable    bool // FlagKeepable of the newest tick
	halts       *controller.StopHistory
	refusals    refusals
}

// refusals are refused presses without a report.
type refusals struct {
	n      int
	label  rewardsrc.Label // the last one
	reason error
	nextAt int64 // earliest time of the next report
}

// refusalsEvery is the time between two reports of refused presses.
const refusalsEvery = int64(time.Second)

// NewLabelIntake returns the intake of a source. now is the clock of its labels, in nanoseconds.
func NewLabelIntake(file configs.File, source rewardsrc.Source, r *Recorder, now func() int64) *LabelIntake {
	return &LabelIntake{
		Source: source, recorder: r, now: now,
		answersOnly: file.Operator.LabelMode == configs.ModePerRequest,
		undoKeeps:   file.Operator.OnButtons(),
		halts:       controller.NewStopHistory(file.Controller.Credit),
	}
}

// Reasons to refuse a press.
var (
	errNotAsked = errors.New("nothing was asked (operator.label_mode: per_request)")
	errStopped  = errors.New("the robot was stopped or starting")
)

// Ask records a request and shows it to the operator.
func (d *LabelIntake) Ask(r rewardsrc.Request) {
	d.Source.Ask(r)
	d.recorder.Request(r)
}

// NoteTick notes whether the robot was stopped, starting or resting when a tick's state was sensed,
// and whether the operator can keep a former task.
func (d *LabelIntake) NoteTick(t *controller.Tick) {
	d.halts.Note(t.Index, t.SenseAt, t.Excluded())
	d.keepable = t.Flags.Has(controller.FlagKeepable)
}

// Pass makes a label durable, hands it to next and acknowledges it. It refuses a label that may not
// count, that cannot be written or that next does not take. After the write the label is in the
// log: next may fail only at the end of a run.
func (d *LabelIntake) Pass(label rewardsrc.Label, next func(rewardsrc.Label) error) {
	label.ID = d.lastID + 1
	if label.Kind == rewardsrc.Undo && d.undoKeeps && d.keepable {
		label.Kind, label.Undoes = rewardsrc.Keep, 0
	}
	err := d.admit(label)
	if err == nil {
		err = d.write(label)
	}
	if err == nil {
		d.lastID++
		err = next(label)
	}
	if err != nil {
		d.recorder.Statistics.refuse(err.Error())
		d.refusals.n++
		d.refusals.label, d.refusals.reason = label, err
	}
	if ack, ok := d.Source.(rewardsrc.Acknowledger); ok {
		if err != nil {
			ack.Refuse(label, err)
		} else {
			ack.Acknowledge(label)
		}
	}
	d.recorder.Display.Label(label, err)
}

// admit returns the reason to refuse a label. A press that was too late for its request names the
// tick: it was meant as an answer.
func (d *LabelIntake) admit(label rewardsrc.Label) error {
	now := d.now()
	if err := rewardsrc.CheckTime(label.At, now-int64(rewardsrc.MaxLate), now); err != nil {
		return err
	}
	if d.answersOnly && label.Kind.Teaches() && label.Request == 0 && label.Tick == rewardsrc.NoTick {
		return errNotAsked
	}
	if !d.halts.Admits(label) {
		return errStopped
	}
	return nil
}

func (d *LabelIntake) write(label rewardsrc.Label) error {
	if d.recorder.Log == nil {
		return nil
	}
	if err := d.recorder.Log.WriteLabel(label); err != nil {
		return fmt.Errorf("%v %d is not durable: %w", label.Kind, label.ID, err)
	}
	return nil
}

// Report reports refused presses: the first at once, later ones once a second.
func (d *LabelIntake) Report() {
	if d.now() >= d.refusals.nextAt {
		d.Flush()
	}
}

// Flush reports the refused presses without a report.
func (d *LabelIntake) Flush() {
	r := &d.refusals
	if r.n == 0 {
		return
	}
	text := fmt.Sprintf("%s does NOT count: %v", r.label.Describe(), r.reason)
	if r.n > 1 {
		text = fmt.Sprintf("%d presses do NOT count; the last: %s: %v", r.n, r.label.Describe(), r.reason)
	}
	now := d.now()
	*r = refusals{nextAt: now + refusalsEvery}
	d.recorder.Event(flightlog.Event{At: now, Level: flightlog.Warn, Text: text})
}

// LockstepSource is an intake as the agent's source in lockstep, on simulated time.
type LockstepSource struct {
	intake  *LabelIntake
	watcher rewardsrc.Watcher // may be nil
	at      int64             // the simulated time, ns
}

// NewLockstepSource returns the source of an intake and gives the intake its clock.
func NewLockstepSource(d *LabelIntake) *LockstepSource {
	s := &LockstepSource{intake: d}
	d.now = func() int64 { return s.at }
	s.watcher, _ = d.Source.(rewardsrc.Watcher)
	return s
}

// Ask implements rewardsrc.Source.
func (s *LockstepSource) Ask(r rewardsrc.Request) { s.intake.Ask(r) }

// Poll implements rewardsrc.Source.
func (s *LockstepSource) Poll(dst []rewardsrc.Label) int {
	polled := dst[:s.intake.Source.Poll(dst)]
	n := 0
	for _, label := range polled {
		s.intake.Pass(label, func(durable rewardsrc.Label) error {
			dst[n] = durable
			n++
			return nil
		})
	}
	s.intake.Report()
	return n
}

// Halt implements rewardsrc.Source.
func (s *LockstepSource) Halt() error { return s.intake.Source.Halt() }

// Watch implements rewardsrc.Watcher.
func (s *LockstepSource) Watch(tick uint64, at int64, reward float64, ok bool) {
	s.at = at
	if s.watcher != nil {
		s.watcher.Watch(tick, at, reward, ok)
	}
}
