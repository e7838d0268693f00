package controller

// ledger holds the newest labels in the belief, for undo, and the newest IDs,
// so that no label counts twice.
type ledger struct {
	entries []entry // a ring
	added   uint64  // labels
	next    int
	seen    [seenIDs]uint64 // index: ID modulo len; IDs increase, so it holds the newest
}

// seenIDs is the number of IDs held. A label that is repeated after more labels than this refers
// to a moment that the history has dropped.
const seenIDs = 4096

// entry is one label that entered the belief.
type entry struct {
	active bool   // in the belief: not undone
	order  uint64 // labels added before
	id     uint64
	clock  uint64  // of the learner: the time of the weights
	given  float64 // value of the operator's label
	reward float64 // in the belief
	weight float64 // at clock
	full   float64 // at clock, without the effect of its residual
	former float64 // at clock, in the belief of formerTask; 0: not in it
	phi    []float64
}

func newLedger(capacity, d int) *ledger {
	entries := make([]entry, capacity)
	for i := range entries {
		entries[i].phi = make([]float64, d)
	}
	return &ledger{entries: entries}
}

// repeated records an ID and reports whether it is known. 0 is not an ID.
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

// forget forgets the labels, but not their IDs.
func (l *ledger) forget() {
	for i := range l.entries {
		l.entries[i].active = false
	}
}

func (l *ledger) add(id, clock uint64, reward, weight, former float64, phi []float64) *entry {
	e := &l.entries[l.next]
	e.active, e.order, e.id, e.clock, e.reward = true, l.added, id, clock, reward
	e.weight, e.full, e.former = weight, weight, former
	l.next, l.added = (l.next+1)%len(l.entries), l.added+1
	copy(e.phi, phi)
	return e
}

// recent returns the entry of the label that was added i labels ago, possibly not active.
func (l *ledger) recent(i int) *entry {
	return &l.entries[(l.next-1-i+2*len(l.entries))%len(l.entries)]
}

// find returns the active entry of a label, the newest one if id is 0, or nil.
func (l *ledger) find(id uint64) *entry {
	for back := 1; back <= len(l.entries); back++ {
		e := &l.entries[(l.next-back+len(l.entries))%len(l.entries)]
		if e.active && (id == 0 || e.id == id) {
			return e
		}
	}
	return nil
}
