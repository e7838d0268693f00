package flightlog

import (
	"slices"
	"testing"

	"optibfm/controller"
)

func TestSummary_StopsHaveTheirNumber(t *testing.T) {
	several := controller.FaultSense.String() + " (1200 stops), " + controller.FaultModel.String()
	for want, faults := range map[string]map[controller.Fault]uint64{
		"none":  nil,
		several: {controller.FaultSense: 1200, controller.FaultModel: 1},
	} {
		s := Summary{Faults: faults}
		if got := s.Stops(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestSummary_NamesTheTicksAfterWhichLabelsWereForgotten(t *testing.T) {
	s := newTally()
	tick := controller.NewTick(testShape)
	for i := range uint64(9) {
		tick.Index, tick.Flags = i, 0
		if i%4 == 2 {
			tick.Flags = controller.FlagContradicted
		}
		s.addTick(tick)
	}
	if got := s.summary(Clock{}).Changed; !slices.Equal(got, []uint64{2, 6}) {
		t.Errorf("%v", got)
	}
}
