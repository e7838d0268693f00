package ipc

import (
	"errors"
	"fmt"

	"optibfm/controller"
	"optibfm/hal"
	"optibfm/internal/ipc/shm"
	"optibfm/rewardsrc"
)

// ControlLink is the control process's end of the segment: the agent's source of labels and plans,
// and the destination of its ticks. No method that the control thread calls allocates or blocks.
type ControlLink struct {
	shape controller.Shape

	ticks    *shm.Producer
	states   *shm.MailboxWriter
	requests *shm.Producer
	plans    *shm.MailboxReader
	labels   *shm.Consumer
	stops    *shm.MailboxWriter // not for the control thread
	switches *shm.Producer
	presses  *shm.Producer
	warnings *shm.Producer // not for the control thread

	Words

	slot  controller.Tick // in the ring
	state controller.State
	plan  controller.Plan
}

var (
	_ rewardsrc.Source    = (*ControlLink)(nil)
	_ rewardsrc.Reachable = (*ControlLink)(nil)
	_ controller.Plans    = (*ControlLink)(nil)
)

// NewControlLink opens the control process's end.
func NewControlLink(segment *shm.Segment, shape controller.Shape) (*ControlLink, error) {
	l := &ControlLink{shape: shape}
	var errs [10]error
	l.ticks, errs[0] = segment.Producer(sectionTicks)
	l.states, errs[1] = segment.MailboxWriter(sectionStates)
	l.requests, errs[2] = segment.Producer(sectionRequests)
	l.plans, errs[3] = segment.MailboxReader(sectionPlans)
	l.labels, errs[4] = segment.Consumer(sectionLabels)
	l.Words, errs[5] = OpenWords(segment)
	l.stops, errs[6] = segment.MailboxWriter(sectionStops)
	l.switches, errs[7] = segment.Producer(sectionSwitches)
	l.presses, errs[8] = segment.Producer(sectionPresses)
	l.warnings, errs[9] = segment.Producer(sectionWarnings)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("control: segment: %w", err)
	}
	return l, l.bindState()
}

// Record copies a tick to the ring and wakes the recorder. A full ring drops it. The control
// process never reads it back: the host could have changed it.
func (l *ControlLink) Record(t *controller.Tick) error {
	region, ok := l.ticks.Reserve()
	if !ok {
		return l.ticks.Err()
	}
	var err error
	if l.slot, err = controller.Bind(region, l.shape); err != nil {
		return err
	}
	l.slot.CopyFrom(t)
	l.ticks.Commit()
	l.TickWake.Signal()
	return nil
}

func (l *ControlLink) bindState() (err error) {
	l.state, err = controller.BindState(l.states.Buffer(), l.shape)
	return err
}

// State implements controller.Plans.
func (l *ControlLink) State() *controller.State { return &l.state }

// Offer implements controller.Plans.
func (l *ControlLink) Offer() error {
	l.states.Publish()
	l.StateWake.Signal()
	if err := l.states.Err(); err != nil {
		return err
	}
	return l.bindState()
}

// Latest implements controller.Plans.
func (l *ControlLink) Latest() *controller.Plan {
	buf, fresh := l.plans.Read()
	if buf == nil {
		return nil
	}
	if fresh || l.plan.PlanHeader == nil {
		var err error
		if l.plan, err = controller.BindPlan(buf, l.shape); err != nil {
			return nil
		}
	}
	return &l.plan
}

// Ask implements rewardsrc.Source.
func (l *ControlLink) Ask(r rewardsrc.Request) { put(l.requests, requestView, r) }

// Poll implements rewardsrc.Source.
func (l *ControlLink) Poll(dst []rewardsrc.Label) (n int) {
	for n < len(dst) {
		label, ok := take(l.labels, labelView)
		if !ok {
			break
		}
		dst[n] = label
		n++
	}
	return n
}

// Reachable implements rewardsrc.Reachable. The host process reports a lost device of the operator.
func (l *ControlLink) Reachable() bool { return l.Away.Load() == 0 }

// Halt implements rewardsrc.Source. The host process has the device.
func (l *ControlLink) Halt() error { return nil }

// Press sends a press of a button of the robot to the operator's device in the host process.
func (l *ControlLink) Press(p hal.Press) { put(l.presses, pressView, p) }

// Report sends the cause of a stop to the host process.
func (l *ControlLink) Report(cause *controller.FaultError, final bool) {
	stopView.At(l.stops.Buffer()).set(cause, final)
	l.stops.Publish()
	l.TickWake.Signal()
}

// Warn sends a warning to the host process. It returns false if the ring is full. One goroutine
// calls it.
func (l *ControlLink) Warn(warning string) bool {
	slot, ok := l.warnings.Reserve()
	if !ok {
		return false
	}
	warningView.At(slot).set(warning)
	l.warnings.Commit()
	l.TickWake.Signal()
	return true
}

// Err returns an error after the host process has written an impossible value.
func (l *ControlLink) Err() error {
	for _, err := range [...]error{
		l.ticks.Err(), l.states.Err(), l.requests.Err(), l.plans.Err(), l.labels.Err(), l.switches.Err(), l.presses.Err(),
		l.warnings.Err(),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}
