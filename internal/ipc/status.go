package ipc

import (
	"fmt"

	"optibfm/internal/plaintext"
)

// Status is the answer of the control socket to every command.
type Status struct {
	Error   string  `json:"error,omitempty"`   // why the command was refused
	Robot   string  `json:"robot"`             // its name
	State   string  `json:"state"`             // disarmed, armed or stopped
	Cause   string  `json:"cause,omitempty"`   // of the stop
	Found   string  `json:"found,omitempty"`   // details of the cause
	Present string  `json:"present,omitempty"` // the present condition that stops the robot, or would
	Warning string  `json:"warning,omitempty"` // of the robot, at present
	Tick    uint64  `json:"tick"`
	Planned bool    `json:"planned"` // a z exists
	ZAgeMS  float64 `json:"z_age_ms"`
	LateUS  float64 `json:"late_us"` // of the newest tick
	WorstUS float64 `json:"worst_late_us"`
	Skipped uint64  `json:"skipped"`           // ticks
	Demoted uint64  `json:"demoted"`           // see rtloop.Live
	Deadman string  `json:"deadman"`           // stops the robot if this computer fails
	Console string  `json:"console,omitempty"` // why browsers cannot reach the web console
}

// DemotedWarning is the warning of rtloop.Live.Demoted.
const DemotedWarning = "the control process computes beside its control thread: " +
	"its other threads lost their real-time priority for a while, and ticks may be late"

// PriorityWarning begins the warning of rtloop.Live.PriorityError.
const PriorityWarning = "the real-time priority of the control process's other threads cannot be changed, " +
	"and ticks may be late: "

// Text returns the status as lines for a terminal, without control characters of the robot.
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
	if c.Warning != "" {
		s += "\nwarning: " + plaintext.Clean(c.Warning)
	}
	if c.Demoted > 0 {
		s += fmt.Sprintf("\nwarning: %s (%d times)", DemotedWarning, c.Demoted)
	}
	age := "no plan yet"
	if c.Planned {
		age = fmt.Sprintf("z is %.0f ms old", c.ZAgeMS)
	}
	s += fmt.Sprintf("\ntick %d, %s, %.0f µs late, at most %.0f, %d skipped\ndeadman: %s\n",
		c.Tick, age, c.LateUS, c.WorstUS, c.Skipped, plaintext.Clean(c.Deadman))
	if c.Console != "" {
		s += "console: " + plaintext.Clean(c.Console) + "\n"
	}
	return s
}
