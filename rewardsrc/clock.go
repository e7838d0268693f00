package rewardsrc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Monotonic is the clock of labels and requests: CLOCK_MONOTONIC, nanoseconds.
// The control loop and the kernel's input events go by the same.
func Monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(fmt.Errorf("rewardsrc: CLOCK_MONOTONIC: %w", err)) // every Linux has it
	}
	return ts.Nano()
}
