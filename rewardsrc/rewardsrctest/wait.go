// Package rewardsrctest helps to test label sources.
package rewardsrctest

import (
	"testing"
	"time"

	"optibfm/rewardsrc"
)

// HangGuard ends a test that waits for an event that never comes.
const HangGuard = 3 * time.Minute

// Eventually waits until ok reports true.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(HangGuard); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// Labels polls a source until it has given n labels.
func Labels(t testing.TB, s interface{ Poll([]rewardsrc.Label) int }, n int) (all []rewardsrc.Label) {
	t.Helper()
	buf := make([]rewardsrc.Label, 8)
	Eventually(t, "labels", func() bool {
		all = append(all, buf[:s.Poll(buf)]...)
		return len(all) >= n
	})
	if len(all) != n {
		t.Fatalf("%d labels, want %d: %+v", len(all), n, all)
	}
	return all
}
