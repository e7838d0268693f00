package controller

// ledger remembers the newest applied labels, so that they can be taken back.
type ledger struct {
	entries []entry // a ring
	next    int
}

// entry is one label that entered the belief.
type entry struct {
	counts bool // it is in the belief: not taken back
	id     uint64
	clock  uint64 // the learner's clock when it entered
	reward float64
	weight float64 // with which it entered
	phi    []float64
}

func newLedger(capacity, d int) ledger {
	entries := make([]entry, capacity)
	for i := range entries {
		entries[i].phi = make([]float64, d)
	}
	return ledger{entries: entries}
}

func (l *ledger) add(id, clock uint64, reward, weight float64, phi []float64) {
	e := &l.entries[l.next]
	l.next = (l.next + 1) % len(l.entries)
	e.counts, e.id, e.clock, e.reward, e.weight = true, id, clock, reward, weight
	copy(e.phi, phi)
}

// find returns the entry of a label that counts, the newest where id is 0, or
// nil.
func (l *ledger) find(id uint64) *entry {
	for back := 1; back <= len(l.entries); back++ {
		e := &l.entries[(l.next-back+len(l.entries))%len(l.entries)]
		if e.counts && (id == 0 || e.id == id) {
			return e
		}
	}
	return nil
}
