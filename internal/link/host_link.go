package link

import (
	"errors"
	"fmt"

	"optibfm/controller"
	"optibfm/internal/shm"
	"optibfm/rewardsrc"
)

// HostLink is the host process's end of the segment. Each section is used by
// one goroutine: states and plans by the planner, the rings by the recorder.
type HostLink struct {
	shape controller.Shape

	ticks    *shm.Consumer
	states   *shm.MailboxReader
	requests *shm.Consumer
	plans    *shm.MailboxWriter
	labels   *shm.Producer
	stops    *shm.MailboxReader

	Words

	TickWake, StateWake *Wake // nil in tests of one goroutine

	tick  controller.Tick
	state controller.State
	plan  controller.Plan
}

// ErrLabelRing refuses a press: the robot has not taken the last ones.
var ErrLabelRing = errors.New("host: the robot has not taken the last labels: press again in a moment")

func NewHostLink(segment *shm.Segment, shape controller.Shape) (*HostLink, error) {
	l := &HostLink{shape: shape}
	var errs [7]error
	l.ticks, errs[0] = segment.Consumer(sectionTicks)
	l.states, errs[1] = segment.MailboxReader(sectionStates)
	l.requests, errs[2] = segment.Consumer(sectionRequests)
	l.plans, errs[3] = segment.MailboxWriter(sectionPlans)
	l.labels, errs[4] = segment.Producer(sectionLabels)
	l.Words, errs[5] = OpenWords(segment)
	l.stops, errs[6] = segment.MailboxReader(sectionStops)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("host: segment: %w", err)
	}
	return l, nil
}

// NextTick returns the oldest tick that was not released, or nil.
func (l *HostLink) NextTick() (*controller.Tick, error) {
	slot, ok := l.ticks.Peek()
	if !ok {
		return nil, l.ticks.Err()
	}
	var err error
	l.tick, err = controller.Bind(slot, l.shape)
	return &l.tick, err
}

func (l *HostLink) ReleaseTick() { l.ticks.Release() }

// NewestState returns the newest state and whether it was not returned before;
// nil before the first.
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

// NewestStop returns a copy of the newest stop and whether it was not returned before.
func (l *HostLink) NewestStop() (r StopReport, fresh bool) {
	buf, fresh := l.stops.Read()
	if buf == nil {
		return r, false
	}
	return *stopView.At(buf), fresh
}

// NextRequest takes the oldest request notice.
func (l *HostLink) NextRequest() (r rewardsrc.Request, ok bool) {
	slot, ok := l.requests.Peek()
	if !ok {
		return r, false
	}
	r = *requestView.At(slot)
	l.requests.Release()
	return r, true
}

// HasRoom reports whether a label could be pushed now. Only the host pushes,
// so a true answer holds until it does.
func (l *HostLink) HasRoom() bool {
	_, ok := l.labels.TryReserve()
	return ok
}

// Push hands a durable label to the control process.
func (l *HostLink) Push(label rewardsrc.Label) error {
	slot, ok := l.labels.TryReserve()
	if !ok {
		return errors.Join(ErrLabelRing, l.labels.Err())
	}
	*labelView.At(slot) = label
	l.labels.Commit()
	return nil
}
