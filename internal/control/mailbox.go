package control

import (
	"errors"
	"sync/atomic"
	"time"

	"optibfm/controller"
)

// command is what an operator can ask of the control thread.
type command uint64

const (
	commandNone command = iota
	commandArm
	commandDisarm
	commandReset
	commandStop
)

// actNames are the words of the control socket, and the subcommands.
var actNames = map[string]command{"arm": commandArm, "disarm": commandDisarm, "reset": commandReset, "stop": commandStop}

// commandMailbox is what lies between the control socket's goroutine, which asks,
// and the control thread, which answers in its next tick: atomic words, and
// nothing that either waits for. It is memory of the control process alone. The
// host process has no part of it, and so no way to arm.
type commandMailbox struct {
	asked    atomic.Uint64 // number of the question << 8 | act
	answered atomic.Uint64 // number of the last question that was answered
	refusal  atomic.Pointer[error]
	stopping atomic.Bool // a stop is asked for; apart, so that nothing overwrites it

	mode    atomic.Uint32 // controller.Mode
	present atomic.Uint32 // controller.Fault
	tick    atomic.Uint64
	deadman atomic.Int64                          // the robot's own, ns; 0: none that is set
	planAge atomic.Uint64                         // ticks + 1; 0: there is no plan
	stopped atomic.Pointer[controller.FaultError] // why the robot is stopped: the first cause; nil: it is not

	broken atomic.Pointer[error] // the goroutine panicked
}

var (
	errNoAnswer   = errors.New("the control thread did not answer: it hangs, or the run is ending")
	errNoPlanYet  = errors.New("there is no plan yet to follow: wait for the planner")
	errSaidStop   = errors.New("an operator said stop")
	errSocketDied = errors.New("the control socket's goroutine panicked")
)

// Ask hands an act to the control thread and waits for its answer, at most so
// long. Only the socket's goroutine calls it.
func (s *commandMailbox) Ask(a command, patience time.Duration) error {
	if a == commandStop {
		s.stopping.Store(true)
		if !waitUntil(patience, func() bool { return !s.stopping.Load() }) {
			return errNoAnswer
		}
		return nil
	}
	number := s.asked.Load()>>8 + 1
	s.asked.Store(number<<8 | uint64(a))
	if !waitUntil(patience, func() bool { return s.answered.Load() == number }) {
		s.asked.CompareAndSwap(number<<8|uint64(a), number<<8) // it is not done later, when nobody expects it
		return errNoAnswer
	}
	if refusal := s.refusal.Load(); refusal != nil {
		return *refusal
	}
	return nil
}

func waitUntil(patience time.Duration, done func() bool) bool {
	for deadline := time.Now().Add(patience); !done(); {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return true
}

// next is the question that waits for an answer. The control thread calls it.
func (s *commandMailbox) next() (number uint64, a command) {
	word := s.asked.Load()
	if number = word >> 8; number == s.answered.Load() {
		return number, commandNone
	}
	return number, command(word & 0xff)
}

// Answer ends a question; nil: it was done.
func (s *commandMailbox) Answer(number uint64, refusal error) {
	s.refusal.Store(nil)
	if refusal != nil {
		s.refusal.Store(&refusal)
	}
	s.answered.Store(number)
}

// show shows whether the robot may move, before an act is answered.
func (s *commandMailbox) show(a *controller.Agent) {
	s.mode.Store(uint32(a.Mode()))
	s.present.Store(uint32(a.Present()))
	s.deadman.Store(int64(a.Deadman()))
}

// Publish shows how the robot is, after each tick.
func (s *commandMailbox) Publish(a *controller.Agent, t *controller.Tick, planned bool) {
	s.show(a)
	s.tick.Store(t.Index)
	if planned {
		s.planAge.Store(t.Index - t.PlanConfirmed + 1)
	}
}
