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

func TestSummary_NamesTheTicksAfterWhichTheTaskBeganAgain(t *testing.T) {
	s := newTally()
	tick := controller.NewTick(testShape)
	for i := range uint64(9) {
		tick.Index, tick.Flags = i, 0
		if i%4 == 2 {
			tick.Flags = controller.FlagChanged
		}
		s.addTick(tick)
	}
	if got := s.summary(Clock{}).Changed; !slices.Equal(got, []uint64{2, 6}) {
		t.Errorf("%v", got)
	}
}

func TestSummary_NamesTheCauseOfTheEnd(t *testing.T) {
	halted := controller.FaultHost.String() + ": the host process made no progress"
	frozen := controller.FaultFrozen.String() + ": wheel"
	orphaned := OrphanedEvent + "; check the robot first"
	for name, c := range map[string]struct {
		tick  controller.Fault // of the last tick
		event string
		end   string
		want  string // the stops
	}{
		"outside of a tick":       {controller.FaultNone, HaltedEvent + halted, halted, "host failed"},
		"in a tick":               {controller.FaultFrozen, HaltedEvent + frozen, frozen, "sensor frozen"},
		"after another stop":      {controller.FaultFrozen, HaltedEvent + halted, halted, "host failed, sensor frozen"},
		"control process killed":  {controller.FaultNone, orphaned, orphaned, "none"},
		"another event":           {controller.FaultNone, "robot armed", "", "none"},
		"a fault of another time": {controller.FaultNone, HaltedEvent + "gremlins: two", "gremlins: two", "none"},
	} {
		s := newTally()
		tick := controller.NewTick(testShape)
		tick.Fault = c.tick
		s.addTick(tick)
		s.add(&Record{Event: &Event{Level: Error, Text: c.event}})
		if got := s.summary(Clock{}); got.End != c.end || got.Stops() != c.want || got.Errors != 1 {
			t.Errorf("%s: ended by %q, stops %s, %d errors", name, got.End, got.Stops(), got.Errors)
		}
	}
}
