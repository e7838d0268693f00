package servobus_test

import (
	"strings"
	"testing"

	"optibfm/hal"
)

// silentHalter is a chain that does not answer. It implements servobus.Halter.
type silentHalter struct {
	results []error // of the writes, in order
	writes  int
}

func (s *silentHalter) Probe(int) error           { return hal.ErrTimeout }
func (s *silentHalter) AssumeConfigured(int)      {}
func (s *silentHalter) Holds(int) bool            { return true }
func (s *silentHalter) SetGoal(int, float64) bool { return true }
func (s *silentHalter) Inactive(int) string       { return "" }
func (s *silentHalter) Verify(int, bool) error    { return hal.ErrTimeout }
func (s *silentHalter) WriteGoal(int, bool) error {
	s.writes++
	return s.results[s.writes-1]
}

func TestHaltAll_ReportsWhetherLineAcceptedUnverifiedCommand(t *testing.T) {
	one := startBus(t, answerAll, 1)
	for name, c := range map[string]struct {
		results []error
		want    string
	}{
		"twice":         {[]error{nil, nil}, "(halt sent without an answer)"},
		"first only":    {[]error{nil, hal.ErrBus}, "(halt sent without an answer)"},
		"second only":   {[]error{hal.ErrTimeout, nil}, "(halt sent without an answer)"},
		"line was lost": {[]error{hal.ErrBus, hal.ErrBus}, "(halt could not be sent)"},
	} {
		h := &silentHalter{results: c.results}
		_, err := one.HaltAll(h, []float64{0}, false)
		if err == nil || !strings.HasSuffix(err.Error(), c.want) || h.writes != 2 {
			t.Errorf("%s: %d writes: %v", name, h.writes, err)
		}
	}
}

func TestHaltAll_RefusesWrongNumberOfGoals(t *testing.T) {
	if _, err := startBus(t, answerAll, 2).HaltAll(&silentHalter{}, []float64{0}, false); err == nil {
		t.Error("one goal for two servos was accepted")
	}
}
