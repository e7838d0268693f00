package recorder

// Outcome is the result of a run.
type Outcome struct {
	Robot   string // its name
	Tally   *Statistics
	LogPath string
	Posture string
	Fault   string // of the halt, "" without one
	Found   string // its details
	Waited  uint64 // ticks for which a simulated robot waited for the host
	Demoted uint64 // how often other threads of the control process lost their real-time priority
}
