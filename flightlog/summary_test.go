package flightlog

import (
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
