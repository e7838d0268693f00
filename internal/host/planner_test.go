package host

import (
	"runtime"
	"testing"
)

func TestAddSlots_LeavesSlotsBesideASearch(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	if got := addSlots(); got != before {
		t.Errorf("the search gets %d threads of %d", got, before)
	}
	if got := runtime.GOMAXPROCS(0); got != before+2 {
		t.Errorf("%d slots for a search of %d threads, want 2 more", got, before)
	}
}
