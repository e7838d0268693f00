package rewardsrc

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic is the clock of labels and requests: CLOCK_MONOTONIC, nanoseconds.
// The control loop and the kernel's input events use the same clock.
func Monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(fmt.Errorf("rewardsrc: CLOCK_MONOTONIC: %w", err)) // every Linux has it
	}
	return ts.Nano()
}

// MaxLate is the longest time between a press and the arrival of its label.
const MaxLate = time.Minute

// ErrTime is wrapped by the errors of CheckTime.
var ErrTime = errors.New("the time of the press is wrong")

// CheckTime returns an error for a press before since or after now. All times
// are CLOCK_MONOTONIC nanoseconds, which are never negative.
func CheckTime(at, since, now int64) error {
	switch {
	case at > now:
		return fmt.Errorf("%w (%v in the future)", ErrTime, time.Duration(at-now).Round(time.Millisecond))
	case at < max(since, 0):
		return fmt.Errorf("%w (%v ago)", ErrTime, time.Duration(now-max(at, 0)).Round(time.Millisecond))
	}
	return nil
}
