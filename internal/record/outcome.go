package record

// Outcome is what a run leaves behind.
type Outcome struct {
	Robot   string // its name
	Tally   *Statistics
	LogPath string
	Posture string
	Fault   string // why the robot was halted, "" if it was not
	Found   string // what was found then
	Waited  uint64 // ticks for which a simulated robot stood still
}
