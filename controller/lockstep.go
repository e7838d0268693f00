package controller

// Lockstep is the planner inside the tick: Plans for one process and one
// goroutine. Every z comes from the state and belief of its own tick, as in the
// paper, and a run is a function of the configuration, the model, and what
// robot and source return.
type Lockstep struct {
	planner *Planner
	state   *State
	plan    *Plan
	planned bool // plan holds one
	fresh   bool // the last Offer made it
}

var _ Plans = (*Lockstep)(nil)

// NewLockstep makes the planner answer within the tick.
func NewLockstep(planner *Planner) *Lockstep {
	dims := planner.model.Dims()
	shape := Shape{Obs: dims.Obs, Action: dims.Action, Latent: dims.Latent}
	return &Lockstep{planner: planner, state: NewState(shape), plan: NewPlan(shape)}
}

// State returns the buffer that the next Offer plans for.
func (l *Lockstep) State() *State { return l.state }

// Offer plans for the state where a plan is due. A state without an
// observation is passed over: the plan before it stays. After an error there is
// no plan until an Offer succeeds.
func (l *Lockstep) Offer() error {
	l.fresh = false
	if l.state.Valid == 0 {
		return nil
	}
	fresh, err := l.planner.Plan(l.state, l.plan)
	l.planned, l.fresh = err == nil, fresh
	return err
}

// Latest returns the plan in force, or nil before the first.
func (l *Lockstep) Latest() *Plan {
	if !l.planned {
		return nil
	}
	return l.plan
}

// Fresh reports whether the last Offer made a new plan, for a caller that
// records plans.
func (l *Lockstep) Fresh() bool { return l.fresh }
