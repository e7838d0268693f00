package shm

import "fmt"

// CorruptError says that the peer wrote a value that the protocol cannot
// produce: it is broken, or hostile. The endpoint that found it stays closed.
type CorruptError struct {
	Section string // name of the section
	Field   string // what was impossible
	Found   uint64 // its value
	Own     uint64 // the own value that it contradicts

	bad bool
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("shm: %q: the peer left an impossible %s (%#x, against our %#x): stop the peer and give it a new segment",
		e.Section, e.Field, e.Found, e.Own)
}

// set records the first impossible value. It formats nothing, for it runs in
// the control tick.
func (e *CorruptError) set(field string, found, own uint64) {
	e.Field, e.Found, e.Own, e.bad = field, found, own, true
}

func (e *CorruptError) err() error {
	if !e.bad {
		return nil
	}
	return e
}
