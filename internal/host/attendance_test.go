package host

import (
	"testing"
	"time"

	"optibfm/internal/terminal"
	"optibfm/rewardsrc"
)

func TestAttendance_AsksOnlyAnOperatorWhoIsThere(t *testing.T) {
	expired, answered := rewardsrc.Request{State: rewardsrc.Expired}, rewardsrc.Request{State: rewardsrc.Answered}
	type step struct {
		at    time.Duration
		input bool
		ended *rewardsrc.Request
		away  bool
	}
	for name, c := range map[string]struct {
		awaitsFirst, blind bool
		steps              []step
	}{
		"always there": {false, false, []step{{1, false, &expired, false}}},
		"a simulator starts with the first input": {true, false, []step{
			{1 * time.Second, false, nil, true},
			{2 * time.Second, true, nil, false},
			{time.Hour, false, &expired, false}, // its moment stays visible
		}},
		"a request about the present waits": {false, true, []step{
			{1 * time.Second, false, nil, true},
			{2 * time.Second, true, nil, false},
			{time.Hour, false, &answered, false}, // silence alone does not show an absence
			{time.Hour, false, &expired, false},
			{time.Hour, false, &expired, false},
			{time.Hour, false, &answered, false}, // not in a row
			{time.Hour, false, &expired, false},
			{time.Hour, false, &expired, false},
			{time.Hour, false, &expired, true},
			{2 * time.Hour, false, nil, true},
			{2 * time.Hour, true, nil, false},
			{2*time.Hour + 20*time.Second, false, &expired, false}, // missed requests of an active operator
			{2*time.Hour + 25*time.Second, false, &expired, false},
			{2*time.Hour + 29*time.Second, false, &expired, false},
			{3 * time.Hour, false, nil, false},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a := attendance{awaitsFirst: c.awaitsFirst, blind: c.blind}
			for i, s := range c.steps {
				if s.input {
					a.input(int64(s.at))
				}
				if s.ended != nil {
					a.note(*s.ended)
				}
				if got := a.away(int64(s.at)); got != s.away {
					t.Errorf("step %d: away is %v", i, got)
				}
			}
		})
	}
}

// details is a display that counts how often its details were toggled.
type details struct {
	terminal.QuietDisplay
	toggled int
}

func (d *details) ToggleDetails() { d.toggled++ }

func TestProcess_KeyOfDetailsStartsNothing(t *testing.T) {
	display := &details{}
	h := &Process{Display: display}
	h.attend.awaitsFirst = true
	h.Key(terminal.DetailsKey)
	if display.toggled != 1 || !h.attend.starts() {
		t.Errorf("toggled %d times, the next input starts the robot: %v", display.toggled, h.attend.starts())
	}
	h.Key('x')
	if display.toggled != 1 || h.attend.starts() {
		t.Error("another key does not start the robot")
	}
}
