package eval

import "optibfm/controller"

// delayed returns plans that are a number of ticks old, like a planner that takes so long: z was
// chosen for the state and with the belief of then.
type delayed struct {
	*controller.Lockstep
	ring  []*controller.Plan // of the last ticks
	valid []bool             // the slot holds a plan
	n     int                // ticks so far
}

func newDelayed(plans *controller.Lockstep, shape controller.Shape, ticks int) *delayed {
	d := &delayed{Lockstep: plans, ring: make([]*controller.Plan, ticks+1), valid: make([]bool, ticks+1)}
	for i := range d.ring {
		d.ring[i] = controller.NewPlan(shape)
	}
	return d
}

func (d *delayed) Offer() error {
	err := d.Lockstep.Offer()
	slot := d.n % len(d.ring)
	plan := d.Lockstep.Latest()
	if d.valid[slot] = plan != nil; d.valid[slot] {
		d.ring[slot].CopyFrom(plan)
	}
	d.n++
	return err
}

func (d *delayed) Latest() *controller.Plan {
	oldest := d.n % len(d.ring)
	if d.n < len(d.ring) || !d.valid[oldest] {
		return nil
	}
	return d.ring[oldest]
}
