package rewardsrc

import (
	"errors"
	"math"
	"strings"
	"testing"

	"optibfm/internal/errtest"
)

func TestCheckTime_RefusesFutureAndOldTimes(t *testing.T) {
	const now, since = int64(100e9), int64(40e9)
	for at, want := range map[int64]string{
		now: "", now - 1: "", since: "",
		now + 1:         "0s in the future",
		now + 60e9:      "1m0s in the future",
		math.MaxInt64:   "in the future",
		since - 1:       "1m0s ago",
		0:               "1m40s ago",
		-1:              "1m40s ago",
		math.MinInt64:   "1m40s ago",
		-now - int64(1): "1m40s ago",
	} {
		err := CheckTime(at, since, now)
		if want == "" {
			errtest.Nil(t, err, "at ", at)
		} else if !errors.Is(err, ErrTime) || !strings.Contains(err.Error(), want) {
			t.Errorf("at %d: %v, want %q", at, err, want)
		}
	}
	errtest.Is(t, CheckTime(-1, -60e9, 1e9), ErrTime, "a negative time")
}
