package rigtest

import (
	"testing"

	"optibfm/flightlog"
)

// Hashes returns the belief hash of each tick of a log.
func Hashes(t *testing.T, r *flightlog.Reader) (h []uint64) {
	t.Helper()
	for record, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if record.Tick != nil {
			h = append(h, record.Tick.Hash)
		}
	}
	return h
}
