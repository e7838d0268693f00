package ipc

import (
	"fmt"
	"strings"

	"optibfm/rtloop"
)

// Timeline has the phases of the start of a run. Its times are CLOCK_MONOTONIC in ns.
type Timeline struct {
	Began  int64
	Phases []Phase
}

// Phase is a part of a start. It begins at the end of the phase before it.
type Phase struct {
	Name string
	End  int64
}

// End adds a phase that ends now.
func (t *Timeline) End(phase string) { t.Phases = append(t.Phases, Phase{phase, rtloop.Now()}) }

// String returns the durations of the whole start and of each phase, in seconds.
func (t Timeline) String() string {
	var parts []string
	last := t.Began
	for _, p := range t.Phases {
		parts = append(parts, fmt.Sprintf("%s %.2f", p.Name, float64(p.End-last)/1e9))
		last = p.End
	}
	return fmt.Sprintf("started in %.2f s: %s", float64(last-t.Began)/1e9, strings.Join(parts, ", "))
}
