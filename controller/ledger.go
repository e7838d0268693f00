package controller

// ledger remembers the newest labels: what entered the belief, so that it can
// be taken back, and which IDs came, so that none counts twice.
type ledger struct {
	entries []entry // a ring
	next    int
	seen    [seenIDs]uint64 // index: ID modulo len; IDs count up, so it holds the newest
}

// seenIDs is the number of IDs that are remembered. A label that comes again
// after more than that is about a moment that the history has lost.
const seenIDs = 4096

// entry is one label that entered the belief.
type entry struct {
	counts bool // it is in the belief: not taken back
	id     uint64
	clock  uint64 // the learner's clock when it entered
	reward float64
	weight float64 // with which it entered
	phi    []float64
}

func newLedger(capacity, d int) *ledger {
	entries := make([]entry, capacity)
	for i := range entries {
		entries[i].phi = make([]float64, d)
	}
	return &ledger{entries: entries}
}

// repeated notes an ID and reports whether it came before. 0 is no ID.
func (l *ledger) repeated(id uint64) bool {
	if id == 0 {
		return false
	}
	slot := &l.seen[id%seenIDs]
	if *slot == id {
		return true
	}
	*slot = id
	return false
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
