package haltest

import (
	"fmt"
	"time"

	"optibfm/hal"
)

// Kept is the number of the newest actions that a Robot remembers.
const Kept = 1024

// Robot is a fake robot. The zero value is unusable: make one with New.
type Robot struct {
	// Observe fills obs with the n-th observation, n = 0, 1, 2, ... (calls of
	// Sense that failed are not counted). An error is what Sense returns. Where
	// it is nil the observation is all zeros.
	Observe func(n int, obs []float32) error

	// Now is the time of the next sample, in nanoseconds. A successful Sense
	// adds one period. Starts at one period, so that 0 stays "never".
	Now int64

	// SenseErr, ActErr, ArmErr and HaltErr, where not nil, are what the method
	// returns. Act and Arm then do nothing; Halt halts nevertheless.
	SenseErr, ActErr, ArmErr, HaltErr error

	// Senses, Acts, Arms and Halts count the calls that succeeded; of Halt
	// every call.
	Senses, Acts, Arms, Halts int

	// Silence is what Deadman tells while the robot is armed.
	Silence time.Duration

	// Refused counts the actions that Act did not pass on, for whatever reason.
	Refused int

	// Halted is the latch.
	Halted bool

	// Output is what the actuators do: the last accepted action, or the
	// failsafe values. Not to be modified.
	Output []float32

	spec    hal.Spec
	actions []float32 // ring of Kept actions
}

var (
	_ hal.Robot   = (*Robot)(nil)
	_ hal.Guarded = (*Robot)(nil)
)

// Spec is a valid description with the given sizes: observations o0, o1, ...
// without limits, actions a0, a1, ... within ±1 that rest at 0, a period of
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

// New gives a halted robot with the given channels. It panics where the spec
// is invalid.
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
	r.rest()
	return r
}

// Script makes the robot sense the given observations one after the other, and
// the last one ever after. It panics where a length is wrong or there is none.
func (r *Robot) Script(observations ...[]float32) {
	if len(observations) == 0 {
		panic("haltest: Script without an observation")
	}
	for i, o := range observations {
		if len(o) != len(r.spec.Obs) {
			panic(fmt.Sprintf("haltest: observation %d of the script has %d elements, the robot has %d", i, len(o), len(r.spec.Obs)))
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

// Sense gives the next observation and its time.
func (r *Robot) Sense(obs []float32) (at int64, err error) {
	if r.SenseErr != nil {
		return 0, r.SenseErr
	}
	if len(obs) != len(r.spec.Obs) {
		return 0, fmt.Errorf("haltest: sense: obs has the wrong length (%d): give %d elements", len(obs), len(r.spec.Obs))
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
	r.rest()
	return r.HaltErr
}

// Deadman is Silence while the robot is armed, else 0: Arm sets it.
func (r *Robot) Deadman() time.Duration {
	if r.Halted {
		return 0
	}
	return r.Silence
}

// Action is the n-th accepted action, n from 0 to Acts-1. It panics where it
// is no longer remembered: only the newest Kept ones are.
func (r *Robot) Action(n int) []float32 {
	if n < 0 || n >= r.Acts || n < r.Acts-Kept {
		panic(fmt.Sprintf("haltest: action %d of %d is not remembered", n, r.Acts))
	}
	return r.slot(n)
}

func (r *Robot) slot(n int) []float32 {
	a := len(r.spec.Action)
	return r.actions[n%Kept*a:][:a]
}

func (r *Robot) rest() {
	r.Halted = true
	for i := range r.Output {
		r.Output[i] = float32(r.spec.Action[i].Failsafe)
	}
}
