package ipc

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"optibfm/controller"
	"optibfm/internal/ipc/shm"
	"optibfm/rewardsrc"
)

// HostLink is the host process's end of the segment. The planner uses states and plans, the
// recorder everything else.
type HostLink struct {
	shape controller.Shape

	ticks    *shm.Consumer
	states   *shm.MailboxReader
	requests *shm.Consumer
	plans    *shm.MailboxWriter
	labels   *shm.Producer
	stops    *shm.MailboxReader
	switches *shm.Consumer
	presses  *shm.Consumer
	warnings *shm.Consumer

	Words

	tick  controller.Tick
	state controller.State
	plan  controller.Plan
}

// ErrLabelRing refuses a press because the ring is full.
var ErrLabelRing = errors.New("host: the robot has not taken the last labels; press again")

// NewHostLink opens the host process's end.
func NewHostLink(segment *shm.Segment, shape controller.Shape) (*HostLink, error) {
	l := &HostLink{shape: shape}
	var errs [10]error
	l.ticks, errs[0] = segment.Consumer(sectionTicks)
	l.states, errs[1] = segment.MailboxReader(sectionStates)
	l.requests, errs[2] = segment.Consumer(sectionRequests)
	l.plans, errs[3] = segment.MailboxWriter(sectionPlans)
	l.labels, errs[4] = segment.Producer(sectionLabels)
	l.Words, errs[5] = OpenWords(segment)
	l.stops, errs[6] = segment.MailboxReader(sectionStops)
	l.switches, errs[7] = segment.Consumer(sectionSwitches)
	l.presses, errs[8] = segment.Consumer(sectionPresses)
	l.warnings, errs[9] = segment.Consumer(sectionWarnings)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("host: segment: %w", err)
	}
	return l, nil
}

// NextTick returns the oldest tick in the ring, or nil. It is valid until ReleaseTick.
func (l *HostLink) NextTick() (*controller.Tick, error) {
	slot, ok := l.ticks.Peek()
	if !ok {
		return nil, l.ticks.Err()
	}
	var err error
	l.tick, err = controller.Bind(slot, l.shape)
	return &l.tick, err
}

// ReleaseTick frees the slot of NextTick.
func (l *HostLink) ReleaseTick() { l.ticks.Release() }

// NewestState returns the newest state, nil before the first. fresh reports the first return of a
// state.
func (l *HostLink) NewestState() (s *controller.State, fresh bool, err error) {
	buf, fresh := l.states.Read()
	if buf == nil {
		return nil, false, l.states.Err()
	}
	l.state, err = controller.BindState(buf, l.shape)
	return &l.state, fresh, err
}

// Publish hands a plan to the control process.
func (l *HostLink) Publish(p *controller.Plan) error {
	var err error
	if l.plan, err = controller.BindPlan(l.plans.Buffer(), l.shape); err != nil {
		return err
	}
	l.plan.CopyFrom(p)
	l.plans.Publish()
	return l.plans.Err()
}

// NewestStop returns a copy of the newest cause of a stop. fresh reports the first return of a
// cause.
func (l *HostLink) NewestStop() (r StopReport, fresh bool) {
	buf, fresh := l.stops.Read()
	if buf == nil {
		return r, false
	}
	return *stopView.At(buf), fresh
}

// NextRequest takes the oldest request from the ring.
func (l *HostLink) NextRequest() (r rewardsrc.Request, ok bool) { return take(l.requests, requestView) }

// NextPress takes the oldest press of a button of the robot. letter is the one on the button.
func (l *HostLink) NextPress() (letter rune, at int64, ok bool) {
	p, ok := take(l.presses, pressView)
	return rune(min(p.Button, utf8.MaxRune)), p.At, ok
}

// NextWarning takes the oldest warning from the ring.
func (l *HostLink) NextWarning() (warning string, ok bool) {
	t, ok := take(l.warnings, warningView)
	return t.String(), ok
}

// HasRoom reports whether Push has room. Only this process pushes, so true stays true until the
// next Push.
func (l *HostLink) HasRoom() bool {
	_, ok := l.labels.Reserve()
	return ok
}

// Push sends a durable label to the control process.
func (l *HostLink) Push(label rewardsrc.Label) error {
	slot, ok := l.labels.Reserve()
	if !ok {
		return errors.Join(ErrLabelRing, l.labels.Err())
	}
	*labelView.At(slot) = label
	l.labels.Commit()
	return nil
}
