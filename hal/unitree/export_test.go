package unitree

// Report returns the newest report of the writer.
func (r *Robot) Report() Report {
	r.update()
	return r.report
}
