package unitree

import "time"

// WaitForEmulator gives slow writers more time to start.
func WaitForEmulator() { writersStart = time.Minute }

// Report returns the newest report of the writer.
func (r *Robot) Report() Report {
	r.update()
	return r.report
}
