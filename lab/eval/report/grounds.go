package report

import (
	"fmt"
	"slices"
)

// grounds are the trials of one environment that a claim is judged by.
type grounds struct {
	trials
	untried []string // how many models are left out, in one text, if any are
}

// place is what methods must have in common to be compared.
type place struct {
	bfm  bfm
	task string
}

func (t *trial) place() place { return place{t.bfm, t.task} }

// grounds leaves out the models and tasks that not all of the claim's methods were
// tried on, as far as they were tried at all: where a method was tried says how hard
// it had it, and which of its settings was best there. If nothing is left all are
// kept, and what is not comparable is found out when it is compared.
func (c *claim) grounds(ts trials) grounds {
	places := make(map[place]int) // methods that were tried there
	methods := 0
	for _, method := range c.methods() {
		tried := make(map[place]bool)
		for _, t := range ts {
			if t.method == method && !tried[t.place()] {
				tried[t.place()] = true
				places[t.place()]++
			}
		}
		if len(tried) > 0 {
			methods++
		}
	}
	kept := ts.where(func(t *trial) bool { return places[t.place()] == methods })
	if len(kept) == 0 {
		return grounds{trials: ts}
	}
	all, left := make(map[bfm]bool), kept.models()
	for at := range places {
		all[at.bfm] = true
	}
	if left == len(all) {
		return grounds{trials: kept}
	}
	return grounds{kept, []string{fmt.Sprintf("%d of %d models", len(all)-left, len(all))}}
}

// methods are those that the claim is about.
func (c *claim) methods() []string {
	var methods []string
	for i := range c.checks {
		methods = append(methods, c.checks[i].of.method)
		if against := c.checks[i].against; against != nil {
			methods = append(methods, against.method)
		}
	}
	slices.Sort(methods)
	return slices.Compact(methods)
}
