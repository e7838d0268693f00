package report

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/fatal"
)

// labelling has proposals for a log of simulated(), with invented gains.
func labelling() *Labelling {
	return &Labelling{Good: 1, Bad: -1, Proposed: []Proposal{
		{Tick: 7, Gain: 0.5, Expected: 0.25}, {Tick: 3, Gain: 0.125, Expected: -0.5},
	}}
}

// givenOf returns the part of a page's data that label.js uses.
func givenOf(t *testing.T, page []byte) (*dataGiven, dataStarts) {
	t.Helper()
	var d data
	fatal.If(t, json.Unmarshal(embedded(t, page), &d))
	return d.Given, d.Starts
}

func TestWrite_IdentifiesTheMomentsOfALog(t *testing.T) {
	log := simulated().write(t)
	var ticks []uint64
	var states []uint32
	for record, err := range open(t, log).Records() {
		fatal.If(t, err)
		if record.Tick != nil {
			ticks = append(ticks, record.Tick.Index)
			states = append(states, flightlog.StateSum(record.Tick.Phi))
		}
	}
	page, _ := labelPageOf(t, log, &Labelling{Good: 2, Bad: -3, Neutral: 0.5, Proposed: []Proposal{
		{Tick: ticks[40], Gain: 0.5, Expected: 0.25}, {Tick: 1 << 40, Gain: 1}, {Tick: ticks[9], Gain: math.Inf(1)},
	}})
	given, starts := givenOf(t, page)
	if got := unpack[uint32](t, starts.State); !slices.Equal(got, states) {
		t.Errorf("states %v, want %v", got, states)
	}
	if given.Good != 2 || given.Bad != -3 || given.Neutral != 0.5 || given.Refused != "" || len(given.Proposed) != 2 {
		t.Fatalf("%+v", given)
	}
	for i, pos := range []int{40, 9} { // without the tick that the log lacks
		p := given.Proposed[i]
		if p.Pos != pos || p.Tick != ticks[pos] || p.State != states[pos] || !(p.Time > 0) {
			t.Errorf("%+v, want position %d, tick %d, state %d", p, pos, ticks[pos], states[pos])
		}
	}
	if !math.IsNaN(float64(given.Proposed[1].Gain)) {
		t.Errorf("a gain that is not finite: %v", given.Proposed[1].Gain)
	}
	again, _ := givenOf(t, first(labelPageOf(t, log, labelling())))
	shorter := simulated()
	shorter.Ticks--
	other, _ := givenOf(t, first(labelPageOf(t, shorter.write(t), labelling())))
	if again.Key != given.Key || other.Key == given.Key {
		t.Errorf("keys %s, again %s, of another log %s", given.Key, again.Key, other.Key)
	}
}

func first[T, U any](x T, _ U) T { return x }

func TestWrite_AcceptsLogsThatCannotBeLabelled(t *testing.T) {
	empty, blind := simulated(), simulated()
	empty.Ticks, blind.blind = 0, true
	for name, s := range map[string]simulation{"empty": empty, "blind": blind, "whole": simulated()} {
		log := s.write(t)
		given, starts := givenOf(t, first(labelPageOf(t, log, &Labelling{Refused: "<b>no</b> tick"})))
		if given.Refused != "<b>no</b> tick" || given.Key != "" || starts.State != "" || len(given.Proposed) > 0 {
			t.Errorf("%s: %+v, %d bytes of states", name, given, len(starts.State))
		}
		if given, _ := givenOf(t, first(pageOf(t, log))); given != nil {
			t.Errorf("%s: without labels: %+v", name, given)
		}
		given, _ = givenOf(t, first(labelPageOf(t, log, &Labelling{Good: 1, Bad: -1})))
		if given.Refused != "" || len(given.Proposed) > 0 {
			t.Errorf("%s: without proposals: %+v", name, given)
		}
	}
}

func TestWrite_HasTheMiddleOfTheLabels(t *testing.T) {
	s := simulated()
	s.Config.LabelRange = controller.LabelRange{Bad: 5, Good: 10}
	log := s.write(t)
	for want, l := range map[float64]*Labelling{
		7.5: nil, -0.5: {Good: 2, Bad: -3}, 2: {Good: 4, Refused: "no tick"},
	} {
		var d data
		fatal.If(t, json.Unmarshal(embedded(t, first(labelPageOf(t, log, l))), &d))
		if d.Config.Middle != want {
			t.Errorf("found %g, want %g", d.Config.Middle, want)
		}
	}
}

func TestAddGiven_NamesTheFirstTickOfABucket(t *testing.T) {
	c := &collected{columns: columns{
		index: []uint64{5, 6, 8, 9, 10}, time: []float64{0, 1, 3, 4, 5}, state: []uint32{50, 60, 80, 90, 100},
	}}
	d := data{Bucket: 2}
	d.addGiven(c, &Labelling{Proposed: []Proposal{{Tick: 9}}})
	if got := unpack[uint32](t, d.Starts.State); !slices.Equal(got, []uint32{50, 80, 100}) {
		t.Errorf("states %v", got)
	}
	if want := []dataProposal{{Pos: 3, Tick: 9, Time: 4, State: 90}}; !slices.Equal(d.Given.Proposed, want) {
		t.Errorf("%+v, want %+v", d.Given.Proposed, want)
	}
}
