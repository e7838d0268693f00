package i2cbus_test

import (
	"testing"
	"time"

	"optibfm/hal/i2cbus"
)

func TestSpikes_RejectJumpsThatTheNextReadingDoesNotConfirm(t *testing.T) {
	const tick = int64(20 * time.Millisecond)
	for name, readings := range map[string][]struct {
		value  float64
		at     int64 // ticks
		reject bool
	}{
		"a flipped bit": {{1, 1, false}, {37, 2, true}, {1.2, 3, false}, {-35, 4, true}, {1.4, 5, false}},
		"a true jump":   {{1, 1, false}, {37, 2, true}, {36, 3, false}, {35, 4, false}},
		"two flips":     {{1, 1, false}, {37, 2, true}, {-35, 3, true}, {1, 4, false}},
		"quick changes": {{0, 1, false}, {9, 2, false}, {18, 3, false}, {9, 4, false}},
		"after a pause": {{1, 1, false}, {37, 1 + 13, false}},
		"the first":     {{37, 1, false}},
	} {
		s := i2cbus.NewSpikes(2, 10/0.45)
		for i, r := range readings {
			if got := s.Reject([]float64{3, r.value}, r.at*tick); got != r.reject {
				t.Errorf("%s: reading %d (%g) is rejected: %t", name, i+1, r.value, got)
			}
		}
	}
}
