package record

import (
	"errors"
	"fmt"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/rewardsrc"
)

// LabelIntake is the label intake, which each label of each source passes: it is
// admitted, gets its ID, is made durable, and only then goes on and is
// acknowledged to the operator. What is refused is recorded as an event.
type LabelIntake struct {
	Source rewardsrc.Source
	Log    *flightlog.Writer // nil: the run is not recorded
	lastID uint64
	tally  *Statistics
	Notify func(rewardsrc.Label, error) // shows what became of a label; may be nil
	Tell   func(flightlog.Event)        // records and shows an event; may be nil
	now    func() int64                 // the clock of the labels

	answersOnly bool // a reward that answers no request is refused
	halts       *controller.StopHistory
	refusals    refusals
}

// refusals are the presses that were refused and not reported yet.
type refusals struct {
	n      int
	label  rewardsrc.Label // the last one
	why    error
	nextAt int64 // no report before
}

// refusalsEvery is the time between two reports of refused presses.
const refusalsEvery = int64(time.Second)

func NewLabelIntake(file configs.File, source rewardsrc.Source, y *Statistics, now func() int64) *LabelIntake {
	return &LabelIntake{
		Source: source, tally: y, now: now,
		answersOnly: file.Operator.LabelMode == configs.ModePerRequest,
		halts:       controller.NewStopHistory(file.Controller.Credit),
	}
}

// Reasons to refuse a press.
var (
	errNotAsked = errors.New("nothing was asked (operator.label_mode: per_request)")
	errStopped  = errors.New("the robot was stopped")
)

// Ask records a request notice and shows it to the operator.
func (d *LabelIntake) Ask(r rewardsrc.Request) error {
	d.tally.request(r)
	d.Source.Ask(r)
	if d.Log == nil {
		return nil
	}
	return d.Log.WriteRequest(r)
}

// NoteTick notes whether the robot was stopped when a tick's state was sensed.
func (d *LabelIntake) NoteTick(t *controller.Tick) {
	d.halts.Note(t.Index, t.SenseAt, t.Flags.Has(controller.FlagStopped) && !t.Flags.Has(controller.FlagArmed))
}

// Pass makes a label durable, hands it to next, and tells the operator. A label
// that may not count, that cannot be written, or that next does not take, is
// refused. Once written it is in the log; next must therefore only fail when
// the run is over.
func (d *LabelIntake) Pass(label rewardsrc.Label, next func(rewardsrc.Label) error) {
	label.ID = d.lastID + 1
	err := d.admit(label)
	if err == nil {
		err = d.record(label)
	}
	if err == nil {
		d.lastID++
		err = next(label)
	}
	if err != nil {
		d.tally.refuse(err.Error())
		d.refusals.n++
		d.refusals.label, d.refusals.why = label, err
	}
	if ack, ok := d.Source.(rewardsrc.Acknowledger); ok {
		if err != nil {
			ack.Refuse(label, err)
		} else {
			ack.Acknowledge(label)
		}
	}
	if d.Notify != nil {
		d.Notify(label, err)
	}
}

// admit refuses what may not count, whatever device it comes from. A press that
// came too late for its request names the tick: it was meant as an answer.
func (d *LabelIntake) admit(label rewardsrc.Label) error {
	now := d.now()
	if err := rewardsrc.CheckTime(label.At, now-int64(rewardsrc.MaxLate), now); err != nil {
		return err
	}
	if d.answersOnly && label.Kind == rewardsrc.Value && label.Request == 0 && label.Tick == rewardsrc.NoTick {
		return errNotAsked
	}
	if !d.halts.Admits(label) {
		return errStopped
	}
	return nil
}

func (d *LabelIntake) record(label rewardsrc.Label) error {
	if d.Log == nil {
		return nil
	}
	if err := d.Log.WriteLabel(label); err != nil {
		return fmt.Errorf("%v %d was not written down: %w", label.Kind, label.ID, err)
	}
	return nil
}

// Report tells of the presses that were refused: of the first at once, and of
// those that follow once a second.
func (d *LabelIntake) Report() {
	if d.now() >= d.refusals.nextAt {
		d.Flush()
	}
}

// Flush tells of the presses that were refused and not reported yet.
func (d *LabelIntake) Flush() {
	r := &d.refusals
	if r.n == 0 || d.Tell == nil {
		return
	}
	text := fmt.Sprintf("%s does NOT count: %v", r.label.Describe(), r.why)
	if r.n > 1 {
		text = fmt.Sprintf("%d presses do NOT count; the last: %s: %v", r.n, r.label.Describe(), r.why)
	}
	now := d.now()
	*r = refusals{nextAt: now + refusalsEvery}
	d.Tell(flightlog.Event{At: now, Level: flightlog.Warn, Text: text})
}

// LockstepSource is the desk as the agent's source, in one process.
type LockstepSource struct {
	desk    *LabelIntake
	watcher rewardsrc.Watcher // may be nil
	at      int64             // the simulated time
	Err     error             // the first request that could not be recorded
}

func NewLockstepSource(d *LabelIntake) *LockstepSource {
	s := &LockstepSource{desk: d}
	d.now = func() int64 { return s.at }
	s.watcher, _ = d.Source.(rewardsrc.Watcher)
	return s
}

// Ask implements rewardsrc.Source.
func (s *LockstepSource) Ask(r rewardsrc.Request) {
	if err := s.desk.Ask(r); err != nil && s.Err == nil {
		s.Err = err
	}
}

// Poll implements rewardsrc.Source.
func (s *LockstepSource) Poll(dst []rewardsrc.Label) int {
	polled := dst[:s.desk.Source.Poll(dst)]
	n := 0
	for _, label := range polled {
		s.desk.Pass(label, func(durable rewardsrc.Label) error {
			dst[n] = durable
			n++
			return nil
		})
	}
	s.desk.Report()
	return n
}

// Halt implements rewardsrc.Source.
func (s *LockstepSource) Halt() error { return s.desk.Source.Halt() }

// Watch implements rewardsrc.Watcher.
func (s *LockstepSource) Watch(tick uint64, at int64, reward float64, ok bool) {
	s.at = at
	if s.watcher != nil {
		s.watcher.Watch(tick, at, reward, ok)
	}
}
