package eval

import "optibfm/controller"

// delayed hands out plans as old as those of a planner that takes so many steps:
// z was chosen for the state and with the belief of that long ago.
type delayed struct {
	*controller.Lockstep
	ring []*controller.Plan // of the last ticks
	made []bool             // there was a plan
	n    int                // ticks so far
}

func newDelayed(plans *controller.Lockstep, shape controller.Shape, ticks int) *delayed {
	d := &delayed{Lockstep: plans, ring: make([]*controller.Plan, ticks+1), made: make([]bool, ticks+1)}
	for i := range d.ring {
		d.ring[i] = controller.NewPlan(shape)
	}
	return d
}

func (d *delayed) Offer() error {
	err := d.Lockstep.Offer()
	slot := d.n % len(d.ring)
	plan := d.Lockstep.Latest()
	if d.made[slot] = plan != nil; d.made[slot] {
		d.ring[slot].CopyFrom(plan)
	}
	d.n++
	return err
}

func (d *delayed) Latest() *controller.Plan {
	oldest := d.n % len(d.ring) // the next to be overwritten
	if d.n < len(d.ring) || !d.made[oldest] {
		return nil
	}
	return d.ring[oldest]
}
