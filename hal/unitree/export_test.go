package unitree

import "time"

// WaitForSlowStart gives writers on a busy or emulated computer more time to start.
func WaitForSlowStart() { writersStart = time.Minute }

// Report returns the newest report of the writer.
func (r *Robot) Report() Report {
	r.update()
	return r.report
}
