package rigtest

import (
	"testing"

	"optibfm/flightlog"
)

// BeliefHashes returns the belief hash of each tick of a log.
func BeliefHashes(t *testing.T, r *flightlog.Reader) (h []uint64) {
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
