package unitree

import "time"

// WaitForSlowWriters gives writers on a busy or emulated computer more time to start and to answer.
func WaitForSlowWriters() {
	writersStart, armTimeout, haltTimeout = time.Minute, 10*time.Second, 10*time.Second
}

// Report returns the newest report of the writer.
func (r *Robot) Report() Report {
	r.update()
	return r.report
}
