package writer

// peer watches the beat of the other writer.
type peer struct {
	beat    uint64
	silence int64 // ns
	last    int64 // the cycle before
}

// observe returns for how long the other writer has been silent. Of the time in which this one did
// not run either only two periods count: after a pause of the whole computer the first one to run
// must not blame the other.
func (p *peer) observe(beat uint64, now int64) (silence int64) {
	elapsed := min(now-p.last, 2*int64(Period))
	p.last = now
	if beat != p.beat {
		p.beat, p.silence = beat, 0
		return 0
	}
	p.silence += elapsed
	return p.silence
}
