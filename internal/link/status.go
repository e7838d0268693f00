package link

import (
	"fmt"

	"optibfm/internal/plaintext"
)

// Status is the answer to every question.
type Status struct {
	Error   string  `json:"error,omitempty"`   // why the act was refused
	Robot   string  `json:"robot"`             // its name
	State   string  `json:"state"`             // disarmed, armed or stopped
	Cause   string  `json:"cause,omitempty"`   // of the stop
	Found   string  `json:"found,omitempty"`   // what was found then
	Present string  `json:"present,omitempty"` // what stops the robot now, or would
	Tick    uint64  `json:"tick"`
	Planned bool    `json:"planned"` // there is a z
	ZAgeMS  float64 `json:"z_age_ms"`
	LateUS  float64 `json:"late_us"` // of the newest tick
	WorstUS float64 `json:"worst_late_us"`
	Skipped uint64  `json:"skipped"` // ticks
	Deadman string  `json:"deadman"` // what stops the robot when this computer dies
}

// Text is a condition for people. What comes from elsewhere cannot write to the
// terminal as it likes.
func (c *Status) Text() string {
	s := fmt.Sprintf("%s is %s", plaintext.Clean(c.Robot), plaintext.Clean(c.State))
	if c.Cause != "" {
		s += ": " + plaintext.Clean(c.Cause)
	}
	if c.Found != "" {
		s += " (" + plaintext.Clean(c.Found) + ")"
	}
	if c.Present != "" {
		s += "\nnow: " + plaintext.Clean(c.Present)
	}
	age := "no plan yet"
	if c.Planned {
		age = fmt.Sprintf("z is %.0f ms old", c.ZAgeMS)
	}
	return s + fmt.Sprintf("\ntick %d, %s, %.0f µs late, at most %.0f, %d skipped\ndeadman: %s\n",
		c.Tick, age, c.LateUS, c.WorstUS, c.Skipped, plaintext.Clean(c.Deadman))
}
