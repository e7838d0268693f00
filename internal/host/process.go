package host

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// DropRealTime gives up the right to real-time priorities, which limits hand
// down to child processes. The host does so before anything else.
func DropRealTime() error {
	if err := unix.Setrlimit(unix.RLIMIT_RTPRIO, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("host: giving up real-time priorities: %w", err)
	}
	return nil
}
