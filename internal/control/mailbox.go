package control

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"optibfm/controller"
	"optibfm/internal/ipc"
)

// command is a command of an operator to the control thread.
type command uint64

const (
	commandNone command = iota
	commandArm
	commandDisarm
	commandReset
	commandStop
	commandSwitch // to commandMailbox.task
)

// commandNames are the commands of the control socket and the subcommands of the program.
var commandNames = map[string]command{
	"arm": commandArm, "disarm": commandDisarm, "reset": commandReset, "stop": commandStop,
}

// commandMailbox passes commands from the goroutine of the control socket to the control thread,
// which replies in its next tick. The control thread uses only its atomic words. The host process
// has no access to this memory, so it cannot arm the robot.
type commandMailbox struct {
	calling sync.Mutex // one caller at a time, except for a stop

	request       atomic.Uint64 // number of the request << 8 | begun | command
	answered      atomic.Uint64 // number of the last request that was answered
	refusal       atomic.Pointer[error]
	stopRequested atomic.Bool // separate, so that no other request overwrites it
	task          atomic.Pointer[ipc.TaskBelief]

	mode    atomic.Uint32 // controller.Mode
	present atomic.Uint32 // controller.Fault
	tick    atomic.Uint64
	deadman atomic.Int64                          // of the robot, in ns; 0: none is set
	planAge atomic.Uint64                         // ticks + 1; 0: no plan
	cause   atomic.Pointer[controller.FaultError] // first cause of the stop; nil: not stopped

	serverPanic atomic.Pointer[error] // error of a goroutine beside the control thread
}

// begun is set in the word of a request when the control thread begins to run its command. Then the
// caller can no longer cancel it.
const begun = 1 << 7

var (
	errNoAnswer  = errors.New("the control thread did not answer: it hangs, or the run is ending")
	errStillRuns = errors.New("the robot takes long: the command still runs and may have its effect later; " +
		"watch optibfm status")
	errNoPlan       = errors.New("no plan yet; wait for the planner")
	errOperatorStop = errors.New("an operator stopped the robot")
	errServerPanic  = errors.New("a goroutine beside the control thread panicked")
)

// switchTo passes a task to the control thread and waits for the reply.
func (m *commandMailbox) switchTo(b *ipc.TaskBelief, timeout time.Duration) error {
	m.calling.Lock()
	defer m.calling.Unlock()
	m.task.Store(b)
	return m.pass(commandSwitch, timeout)
}

// call passes a command to the control thread and waits for the reply. A stop waits for no other
// command.
func (m *commandMailbox) call(a command, timeout time.Duration) error {
	if a == commandStop {
		m.stopRequested.Store(true)
		if !waitUntil(timeout, func() bool { return !m.stopRequested.Load() }) {
			return errNoAnswer
		}
		return nil
	}
	m.calling.Lock()
	defer m.calling.Unlock()
	return m.pass(a, timeout)
}

func (m *commandMailbox) pass(a command, timeout time.Duration) error {
	number := m.request.Load()>>8 + 1
	answered := func() bool { return m.answered.Load() == number }
	m.request.Store(number<<8 | uint64(a))
	switch {
	case waitUntil(timeout, answered):
	case m.request.CompareAndSwap(number<<8|uint64(a), number<<8): // an operator may be near the robot by then
		return errNoAnswer
	case !waitUntil(timeout, answered):
		return errStillRuns
	}
	if refusal := m.refusal.Load(); refusal != nil {
		return *refusal
	}
	return nil
}

// catchPanic stops the robot after a panic of a goroutine beside the control thread, which defers
// it.
func (m *commandMailbox) catchPanic() {
	if value := recover(); value != nil {
		m.notePanic(value)
	}
}

func (m *commandMailbox) notePanic(value any) {
	err := fmt.Errorf("%w: %v", errServerPanic, value)
	m.serverPanic.Store(&err)
}

// waitUntil polls until done returns true. It returns false after the timeout.
func waitUntil(timeout time.Duration, done func() bool) bool {
	for deadline := time.Now().Add(timeout); !done(); {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return true
}

// next returns the request that has no reply yet, and begins it. The control thread calls it.
func (m *commandMailbox) next() (number uint64, a command) {
	word := m.request.Load()
	number = word >> 8
	if number == m.answered.Load() || !m.request.CompareAndSwap(word, word|begun) {
		return number, commandNone
	}
	return number, command(word & (begun - 1))
}

// reply answers a request; a nil refusal means success.
func (m *commandMailbox) reply(number uint64, refusal error) {
	m.refusal.Store(nil)
	if refusal != nil {
		m.refusal.Store(&refusal)
	}
	m.answered.Store(number)
}

// publishMode publishes whether the robot may move, before a command is answered.
func (m *commandMailbox) publishMode(a *controller.Agent) {
	m.mode.Store(uint32(a.Mode()))
	m.present.Store(uint32(a.Present()))
	m.deadman.Store(int64(a.Deadman()))
}

// publishTick publishes the state of the robot after each tick.
func (m *commandMailbox) publishTick(a *controller.Agent, t *controller.Tick, planned bool) {
	m.publishMode(a)
	m.tick.Store(t.Index)
	if planned {
		m.planAge.Store(t.Index - t.PlanConfirmed + 1)
	}
}
