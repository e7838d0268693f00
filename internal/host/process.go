package host

import (
	"errors"
	"fmt"
	"os"

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

// checkPrivileges refuses the capabilities that the program's file can give to a host that is not
// root.
func checkPrivileges() error {
	var has [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &has[0]); err != nil {
		return fmt.Errorf("host: capabilities: %w", err)
	}
	if os.Geteuid() != 0 && (has[0].Permitted|has[1].Permitted) != 0 {
		return errors.New("host: the program's file gives capabilities to the host process; " +
			"remove cap_setuid and cap_setgid with setcap")
	}
	return nil
}
