package haltest

import (
	"fmt"
	"time"

	"optibfm/hal"
)

// Kept is the number of recent actions that a Robot stores.
const Kept = 1024

// Robot is a fake robot. Use New to make one.
type Robot struct {
	// Observe fills obs with the n-th observation, n = 0, 1, 2, ... (calls of
	// Sense that failed do not count). Sense returns its error. If Observe is
	// nil the observation is all zeros.
	Observe func(n int, obs []float32) error

	// Now is the time of the next sample, in nanoseconds. A successful Sense
	// adds one period. It starts at one period, because 0 means "never".
	Now int64

	// SenseErr, ActErr, ArmErr and HaltErr, if not nil, are returned by the
	// method. Act and Arm then do nothing; Halt still halts.
	SenseErr, ActErr, ArmErr, HaltErr error

	// Senses, Acts and Arms count the successful calls, Halts every call.
	Senses, Acts, Arms, Halts int

	// Silence is the result of Deadman while the robot is armed.
	Silence time.Duration

	// Refused counts the actions that Act refused for any reason.
	Refused int

	// Halted is the latch.
	Halted bool

	// Output is the state of the actuators: the last accepted action, or the
	// failsafe values. Do not modify it.
	Output []float32

	spec    hal.Spec
	actions []float32 // ring of Kept actions
}

var (
	_ hal.Robot        = (*Robot)(nil)
	_ hal.DeadmanTimer = (*Robot)(nil)
)

// Spec returns a valid description with the given sizes: observations o0, o1, ...
// without limits, actions a0, a1, ... within ±1 with failsafe 0, a period of
// 20 ms.
func Spec(obs, action int) hal.Spec {
	spec := hal.Spec{Name: "fake", Period: 20 * time.Millisecond}
	for i := range obs {
		spec.Obs = append(spec.Obs, hal.Channel{Name: fmt.Sprintf("o%d", i)})
	}
	for i := range action {
		spec.Action = append(spec.Action, hal.Channel{Name: fmt.Sprintf("a%d", i), Min: -1, Max: 1})
	}
	return spec
}

// New returns a halted robot with the given channels. It panics if the spec is
// invalid.
func New(spec hal.Spec) *Robot {
	if err := spec.Validate(); err != nil {
		panic(err)
	}
	r := &Robot{
		Now:     spec.Period.Nanoseconds(),
		Output:  make([]float32, len(spec.Action)),
		spec:    spec,
		actions: make([]float32, Kept*len(spec.Action)),
	}
	r.setFailsafe()
	return r
}

// Script makes the robot sense the given observations in sequence, and then
// repeat the last one. It panics without observations or on a wrong length.
func (r *Robot) Script(observations ...[]float32) {
	if len(observations) == 0 {
		panic("haltest: Script without an observation")
	}
	for i, o := range observations {
		if len(o) != len(r.spec.Obs) {
			panic(fmt.Sprintf("haltest: observation %d of the script has %d elements, want %d",
				i, len(o), len(r.spec.Obs)))
		}
	}
	start := r.Senses
	r.Observe = func(n int, obs []float32) error {
		copy(obs, observations[min(n-start, len(observations)-1)])
		return nil
	}
}

// Spec describes the channels.
func (r *Robot) Spec() hal.Spec { return r.spec }

// Sense returns the next observation and its time.
func (r *Robot) Sense(obs []float32) (at int64, err error) {
	if r.SenseErr != nil {
		return 0, r.SenseErr
	}
	if len(obs) != len(r.spec.Obs) {
		return 0, fmt.Errorf("haltest: sense: obs has the wrong length (%d, want %d)", len(obs), len(r.spec.Obs))
	}
	clear(obs)
	if r.Observe != nil {
		if err := r.Observe(r.Senses, obs); err != nil {
			return 0, err
		}
	}
	r.Senses++
	at = r.Now
	r.Now += r.spec.Period.Nanoseconds()
	return at, nil
}

// Act accepts an action that is within the limits, unless halted.
func (r *Robot) Act(action []float32) error {
	if err := r.refuse(action); err != nil {
		r.Refused++
		return err
	}
	copy(r.Output, action)
	copy(r.slot(r.Acts), action)
	r.Acts++
	return nil
}

func (r *Robot) refuse(action []float32) error {
	if r.Halted {
		return hal.ErrHalted
	}
	if r.ActErr != nil {
		return r.ActErr
	}
	return r.spec.CheckAction(action)
}

// Arm ends the halted state.
func (r *Robot) Arm() error {
	if r.ArmErr != nil {
		return r.ArmErr
	}
	r.Arms++
	r.Halted = false
	return nil
}

// Halt sets Output to the failsafe values and latches.
func (r *Robot) Halt() error {
	r.Halts++
	r.setFailsafe()
	return r.HaltErr
}

// Deadman returns Silence while the robot is armed, else 0.
func (r *Robot) Deadman() time.Duration {
	if r.Halted {
		return 0
	}
	return r.Silence
}

// Action returns the n-th accepted action, n from 0 to Acts-1. It panics if the
// action is older than the last Kept ones.
func (r *Robot) Action(n int) []float32 {
	if n < 0 || n >= r.Acts || n < r.Acts-Kept {
		panic(fmt.Sprintf("haltest: action %d of %d is not stored", n, r.Acts))
	}
	return r.slot(n)
}

func (r *Robot) slot(n int) []float32 {
	a := len(r.spec.Action)
	return r.actions[n%Kept*a:][:a]
}

func (r *Robot) setFailsafe() {
	r.Halted = true
	for i := range r.Output {
		r.Output[i] = float32(r.spec.Action[i].Failsafe)
	}
}
