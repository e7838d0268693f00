package ipc

import (
	"strings"

	"optibfm/controller"
)

// TaskBelief is the belief of a saved task to which a run switches.
type TaskBelief struct {
	Name  string
	State []float64 // posterior.Belief.State
	Hash  uint64    // of the belief
	Noise controller.NoiseState
}

// taskName begins a slot of the ring of switches. A controller.State with Next, Hash, Noise and
// Belief follows.
type taskName struct {
	Length uint64
	Text   [120]uint8
}

var taskNameView = mustView[taskName]()

func switchSize(s controller.Shape) int { return taskNameView.Size() + controller.StateSize(s) }

// HasSwitchRoom reports whether PushSwitch has room. Only this process pushes, so true stays true
// until then.
func (l *ControlLink) HasSwitchRoom() bool {
	_, ok := l.switches.Reserve()
	return ok
}

// PushSwitch sends the belief with which the run continues from tick next on. It does not allocate.
func (l *ControlLink) PushSwitch(next uint64, b *TaskBelief) error {
	slot, ok := l.switches.Reserve()
	if !ok {
		return l.switches.Err()
	}
	name := taskNameView.At(slot)
	name.Length = uint64(copy(name.Text[:], b.Name))
	s, err := controller.BindState(slot[taskNameView.Size():], l.shape)
	if err != nil {
		return err
	}
	s.Next, s.Hash, s.Noise = next, b.Hash, b.Noise
	copy(s.Belief, b.State)
	l.switches.Commit()
	return nil
}

// NextSwitch takes the oldest switch of the ring, if it was in or before a tick.
func (l *HostLink) NextSwitch(tick uint64) (next uint64, b TaskBelief, ok bool, err error) {
	slot, ok := l.switches.Peek()
	if !ok {
		return 0, b, false, l.switches.Err()
	}
	s, err := controller.BindState(slot[taskNameView.Size():], l.shape)
	if err != nil || s.Next > tick {
		return 0, b, false, err
	}
	name := taskNameView.At(slot)
	b = TaskBelief{
		Name:  strings.ToValidUTF8(string(name.Text[:min(name.Length, uint64(len(name.Text)))]), ""),
		State: append([]float64(nil), s.Belief...), Hash: s.Hash, Noise: s.Noise,
	}
	next = s.Next
	l.switches.Release()
	return next, b, true, nil
}
