package controller

import (
	"fmt"
	"unsafe"

	"optibfm/hal"
	"optibfm/posterior"
)

// Plans connects the agent to the planner: in lockstep it is the planner
// itself, in the real-time program two mailboxes in shared memory. No method
// blocks.
type Plans interface {
	// State returns the buffer that the agent fills with this tick's state.
	State() *State
	// Offer sends the filled buffer to the planner. An error halts the robot.
	Offer() error
	// Latest returns the newest plan, valid until the next call, or nil
	// before the first.
	Latest() *Plan
}

// State is the planner's input: the observation and the belief. Like a Tick it
// may lie in shared memory.
type State struct {
	*StateHeader
	Obs    []float32 // [O]
	Belief []float64 // posterior.Belief.State, [Shape.StateLen]
}

// StateHeader is the part of a State that has a fixed size.
type StateHeader struct {
	Next    uint64 // the belief precedes this tick; the observation is that of tick Next-1
	At      int64  // when the observation was taken, ns
	Episode uint32
	Valid   uint32  // 1: Obs is valid and a plan is wanted; 0: only the belief is valid
	Hash    uint64  // of the belief
	Scale   float64 // standard deviation of z in units of R⁻¹
	Noise   NoiseState
	Learnt  uint64 // 1: the task is learnt, see Proficiency
	// Switches counts how often another belief replaced this one: Agent.SwitchTask, a changed task,
	// and a rewardsrc.Keep. After each the planner makes a new plan.
	Switches uint64
}

// Tick returns the tick of the observation; meaningful only if Valid.
func (s *State) Tick() uint64 { return s.Next - 1 }

// Plan is the planner's output.
type Plan struct {
	*PlanHeader
	Z []float64 // [d]
}

// PlanHeader is the part of a Plan that has a fixed size.
type PlanHeader struct {
	Tick      uint64  // the state and belief that Z was planned for
	Confirmed uint64  // the newest tick for which the planner kept Z
	Score     float64 // of Z, or 0 if the strategy has none
	Beta      float64 // used for Z, or 0 if the strategy has none
	ElapsedNS int64   // planning time; 0 if not measured
	Known     Interval
}

// Interval is the share of the attainable value that the policy of ẑ attains, in [0, 1]: the median
// of draws of the belief and, of 16 draws, the second smallest and the second largest. It is zero
// if unknown.
type Interval struct{ Low, Middle, High float64 }

// Known reports whether there was an estimate.
func (i Interval) Known() bool { return i.High > 0 }

// valid reports whether a planner can have computed it.
func (i Interval) valid() bool {
	return i.Low >= 0 && i.Low <= i.Middle && i.Middle <= i.High && i.High <= 1
}

const (
	stateHeaderSize = int(unsafe.Sizeof(StateHeader{}))
	planHeaderSize  = int(unsafe.Sizeof(PlanHeader{}))
)

// StateSize returns the size in bytes of a State of this shape.
func StateSize(s Shape) int {
	return (stateHeaderSize + 8*s.StateLen() + 4*s.Obs + 63) &^ 63
}

// PlanSize returns the size in bytes of a Plan of this shape.
func PlanSize(s Shape) int { return (planHeaderSize + 8*s.Latent + 63) &^ 63 }

// NewState allocates a State.
func NewState(s Shape) *State {
	st, err := BindState(aligned(StateSize(s)), s)
	if err != nil {
		panic(err) // the region has the right size
	}
	return &st
}

// NewPlan allocates a Plan.
func NewPlan(s Shape) *Plan {
	p, err := BindPlan(aligned(PlanSize(s)), s)
	if err != nil {
		panic(err) // the region has the right size
	}
	return &p
}

// BindState returns a State in the memory of region.
func BindState(region []byte, s Shape) (State, error) {
	base, err := regionStart(region, StateSize(s), s)
	if err != nil {
		return State{}, err
	}
	belief := unsafe.Add(base, stateHeaderSize)
	n := s.StateLen()
	return State{
		StateHeader: (*StateHeader)(base),
		Belief:      unsafe.Slice((*float64)(belief), n),
		Obs:         unsafe.Slice((*float32)(unsafe.Add(belief, 8*n)), s.Obs),
	}, nil
}

// BindPlan returns a Plan in the memory of region.
func BindPlan(region []byte, s Shape) (Plan, error) {
	base, err := regionStart(region, PlanSize(s), s)
	if err != nil {
		return Plan{}, err
	}
	z := unsafe.Add(base, planHeaderSize)
	return Plan{PlanHeader: (*PlanHeader)(base), Z: unsafe.Slice((*float64)(z), s.Latent)}, nil
}

// CopyFrom copies all of src, which must have the same shape.
func (p *Plan) CopyFrom(src *Plan) {
	*p.PlanHeader = *src.PlanHeader
	copy(p.Z, src.Z)
}

// aligned returns n bytes of memory aligned to 8.
func aligned(n int) []byte {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))[:n]
}

// valid reports whether the sizes are within the limits of robots and models.
// Then no size computed from them overflows.
func (s Shape) valid() bool {
	return s.Obs >= 1 && s.Obs <= hal.MaxChannels &&
		s.Action >= 1 && s.Action <= hal.MaxChannels &&
		s.Latent >= 1 && s.Nuisance >= 0 && s.Latent <= posterior.MaxDim && s.Nuisance <= posterior.MaxDim-s.Latent
}

// regionStart returns the start of region after checking its size and alignment.
func regionStart(region []byte, size int, s Shape) (unsafe.Pointer, error) {
	if !s.valid() {
		return nil, fmt.Errorf("%w: shape %+v: obs and action must be in [1, %d], latent at least 1, "+
			"latent + nuisance at most %d", ErrRegion, s, hal.MaxChannels, posterior.MaxDim)
	}
	if len(region) < size {
		return nil, fmt.Errorf("%w: found %d bytes, need %d", ErrRegion, len(region), size)
	}
	base := unsafe.Pointer(&region[0])
	if uintptr(base)%8 != 0 {
		return nil, fmt.Errorf("%w: address %p is not aligned to 8", ErrRegion, base)
	}
	return base, nil
}
