package shm

import "fmt"

// CorruptError reports a value of the peer that the protocol cannot produce: the peer
// is defective or hostile. The endpoint stays closed.
type CorruptError struct {
	Section string // name of the section
	Field   string // the impossible value
	Found   uint64 // its value
	Own     uint64 // the own value that it contradicts

	bad bool
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("shm: %q: impossible %s from the peer (%#x, own %#x); restart the peer with a new segment",
		e.Section, e.Field, e.Found, e.Own)
}

// set records the first impossible value. It runs in the control tick and formats
// nothing.
func (e *CorruptError) set(field string, found, own uint64) {
	e.Field, e.Found, e.Own, e.bad = field, found, own, true
}

func (e *CorruptError) err() error {
	if !e.bad {
		return nil
	}
	return e
}
