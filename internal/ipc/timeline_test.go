package ipc_test

import (
	"testing"

	"optibfm/internal/ipc"
)

func TestTimeline_GivesEachPhaseItsDuration(t *testing.T) {
	timeline := ipc.Timeline{Began: 1e9, Phases: []ipc.Phase{
		{Name: "model file", End: 1.5e9}, {Name: "packing", End: 3.25e9}, {Name: "devices", End: 3.25e9},
	}}
	want := "started in 2.25 s: model file 0.50, packing 1.75, devices 0.00"
	if found := timeline.String(); found != want {
		t.Errorf("got %q, want %q", found, want)
	}
	before := len(timeline.Phases)
	timeline.End("first tick")
	if added := timeline.Phases[before:]; len(added) != 1 || added[0].Name != "first tick" || added[0].End <= 0 {
		t.Errorf("got %v", added)
	}
}
