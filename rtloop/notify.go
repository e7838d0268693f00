package rtloop

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// Notifier reports the state of the process to the service manager (sd_notify(3)).
// Its methods never block: if the manager does not read, the message is lost and
// they return an error. Any goroutine may call them. On a nil Notifier they do
// nothing. Its socket stays open until the process ends.
type Notifier struct {
	mu       sync.Mutex // Sendto writes to address
	fd       int
	address  unix.SockaddrUnix
	interval time.Duration
}

// NewNotifier reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID from the
// environment. Without a service manager it returns nil, which is ready for use.
func NewNotifier() (*Notifier, error) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil, nil
	}
	if path[0] != '/' && path[0] != '@' {
		return nil, fmt.Errorf("rtloop: NOTIFY_SOCKET is %q; give an absolute path, or @ and a name", path)
	}
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return nil, fmt.Errorf("rtloop: WATCHDOG_USEC or WATCHDOG_PID: %w; let systemd set them (WatchdogSec=)", err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("rtloop: a socket for NOTIFY_SOCKET: %w", err)
	}
	return &Notifier{fd: fd, address: unix.SockaddrUnix{Name: path}, interval: interval}, nil
}

// Ready reports that the start is complete.
func (n *Notifier) Ready() error { return n.send("READY=1") }

// Alive feeds the service manager's watchdog.
func (n *Notifier) Alive() error { return n.send("WATCHDOG=1") }

// Stopping reports that the process is ending.
func (n *Notifier) Stopping() error { return n.send("STOPPING=1") }

// WatchdogInterval is the longest time between calls of Alive; 0: no limit.
func (n *Notifier) WatchdogInterval() time.Duration {
	if n == nil {
		return 0
	}
	return n.interval
}

func (n *Notifier) send(message string) error {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	err := unix.Sendto(n.fd, []byte(message), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, &n.address)
	if err != nil {
		return fmt.Errorf("rtloop: sd_notify %q to %s: %w; check that the service manager listens there",
			message, n.address.Name, err)
	}
	return nil
}
