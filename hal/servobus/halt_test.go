package servobus_test

import (
	"strings"
	"testing"

	"optibfm/hal"
)

// silent is a chain that does not answer. It implements servobus.Halter.
type silent struct {
	tells []error // what becomes of the writes, in turn
	told  int
}

func (s *silent) Meet(int) error        { return hal.ErrTimeout }
func (s *silent) Suppose(int)           {}
func (s *silent) Aim(int, float64) bool { return true }
func (s *silent) Rests(int) string      { return "" }
func (s *silent) Obeys(int, bool) error { return hal.ErrTimeout }
func (s *silent) Tell(int, bool) error {
	s.told++
	return s.tells[s.told-1]
}

func TestASilentServoIsSaidToBeToldOnlyWhereTheLineTookIt(t *testing.T) {
	b := bus(t, everyone)
	for name, c := range map[string]struct {
		tells []error
		says  string
	}{
		"twice":      {[]error{nil, nil}, "(it was told blindly)"},
		"then gone":  {[]error{nil, hal.ErrBus}, "(it was told blindly)"},
		"then there": {[]error{hal.ErrTimeout, nil}, "(it was told blindly)"},
		"gone":       {[]error{hal.ErrBus, hal.ErrBus}, "(it could not be told)"},
	} {
		s := &silent{tells: c.tells}
		if _, err := b.HaltAll(s, []float64{0}, false); err == nil || !strings.HasSuffix(err.Error(), c.says) || s.told != 2 {
			t.Errorf("%s: told %d times: %v", name, s.told, err)
		}
	}
}
