package rtloop

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// Notifier tells the service manager how the process is (sd_notify(3)). No
// method ever waits: where the manager does not read, the message is lost and
// the error says so. Methods may be called by any goroutine; on a nil Notifier
// they do nothing.
type Notifier struct {
	mu       sync.Mutex
	fd       int
	address  unix.SockaddrUnix
	interval time.Duration
}

// NewNotifier reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID from the
// environment. It returns nil, which is ready for use, where no service
// manager listens.
func NewNotifier() (*Notifier, error) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil, nil
	}
	if path[0] != '/' && path[0] != '@' {
		return nil, fmt.Errorf("rtloop: NOTIFY_SOCKET is %q: give an absolute path, or @ and a name", path)
	}
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return nil, fmt.Errorf("rtloop: WATCHDOG_USEC or WATCHDOG_PID: %w: leave them to systemd (WatchdogSec=)", err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("rtloop: a socket for NOTIFY_SOCKET: %w", err)
	}
	return &Notifier{fd: fd, address: unix.SockaddrUnix{Name: path}, interval: interval}, nil
}

// Ready says that the start is over.
func (n *Notifier) Ready() error { return n.send("READY=1") }

// Alive feeds the service manager's watchdog.
func (n *Notifier) Alive() error { return n.send("WATCHDOG=1") }

// Stopping says that the process is about to end.
func (n *Notifier) Stopping() error { return n.send("STOPPING=1") }

// Status sets the line that `systemctl status` shows.
func (n *Notifier) Status(line string) error { return n.send("STATUS=" + line) }

// WatchdogInterval is the time within which Alive must be called; 0: never.
func (n *Notifier) WatchdogInterval() time.Duration {
	if n == nil {
		return 0
	}
	return n.interval
}

// Close closes the socket.
func (n *Notifier) Close() error {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fd < 0 {
		return nil
	}
	err := unix.Close(n.fd)
	n.fd = -1
	return err
}

func (n *Notifier) send(message string) error {
	if n == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fd < 0 {
		return errors.New("rtloop: sd_notify after Close: keep the Notifier open until the end")
	}
	err := unix.Sendto(n.fd, []byte(message), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, &n.address)
	if err != nil {
		return fmt.Errorf("rtloop: sd_notify %q to %s: %w: see whether the service manager still listens there", message, n.address.Name, err)
	}
	return nil
}
