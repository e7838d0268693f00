package controller

// Lockstep implements Plans in one process and one goroutine: it calls the
// planner within the tick. Each z comes from the state and belief of the same
// tick, as in the paper, and a run is a function of the configuration, the
// model, and what robot and source return.
type Lockstep struct {
	planner *Planner
	state   *State
	plan    *Plan
	planned bool // plan is valid
	fresh   bool // the last Offer computed it
}

var _ Plans = (*Lockstep)(nil)

// NewLockstep returns Plans that call planner within the tick.
func NewLockstep(planner *Planner) *Lockstep {
	shape := planner.cfg.Shape(planner.model.Dims())
	return &Lockstep{planner: planner, state: NewState(shape), plan: NewPlan(shape)}
}

// State returns the buffer that the next Offer plans for.
func (l *Lockstep) State() *State { return l.state }

// Offer plans for the state if a plan is due. Without an observation in the state
// it keeps the current plan. An error discards the plan; the next successful Offer
// makes a new one.
func (l *Lockstep) Offer() error {
	l.fresh = false
	if l.state.Valid == 0 {
		return nil
	}
	fresh, err := l.planner.Plan(l.state, l.plan)
	l.planned, l.fresh = err == nil, fresh
	return err
}

// Latest returns the current plan, or nil before the first.
func (l *Lockstep) Latest() *Plan {
	if !l.planned {
		return nil
	}
	return l.plan
}

// Fresh reports whether the last Offer computed a new plan, for callers that
// record plans.
func (l *Lockstep) Fresh() bool { return l.fresh }
