package flightlog

import (
	"testing"

	"optibfm/controller"
)

func TestStopsAreNamedWithTheirNumberWhereThereWasMoreThanOne(t *testing.T) {
	for want, faults := range map[string]map[controller.Fault]uint64{
		"none": nil,
		controller.FaultSense.String() + " (1200 stops), " + controller.FaultModel.String(): {controller.FaultSense: 1200, controller.FaultModel: 1},
	} {
		s := Summary{Faults: faults}
		if got := s.Stops(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
