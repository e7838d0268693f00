package writer

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"optibfm/hal/unitree"
	"optibfm/hal/unitree/dds"
	"optibfm/rtloop"
)

// errOver ends the loop in order.
var errOver = errors.New("unitree: the control process has ended")

// Serve is a writer process. role is unitree.RolePrimary or RoleStandby.
func Serve(role string) error {
	// Only the end of the control process ends a writer.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGPIPE)
	config, gone, err := readConfig(os.Stdin)
	if err != nil {
		return err
	}
	shared, err := unitree.OpenShared(os.NewFile(unitree.SegmentDescriptor, "segment"))
	if err != nil {
		return fmt.Errorf("unitree: %s: %w; start it from optibfm, of the same version", role, err)
	}
	ended := func() bool { return shared.Died(unitree.RoleControl) || gone() }
	return shared.During(role, func() error { return serve(role, config, shared, ended) })
}

func serve(role string, config unitree.WriterConfig, shared *unitree.Shared, gone func() bool) error {
	library, err := dds.Open(config.Config.Library)
	if err != nil {
		return err
	}
	participant, err := library.Join(uint32(config.Config.Domain), config.Config.Interface)
	if err != nil {
		return err
	}
	cycle, err := newCycle(role, config, participant, shared, gone)
	if err != nil {
		return err
	}
	return run(role, config.Config, cycle)
}

// readConfig reads the line with the configuration. gone reports that the input has ended since.
func readConfig(input *os.File) (c unitree.WriterConfig, gone func() bool, err error) {
	lines := bufio.NewReader(input)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return c, nil, fmt.Errorf("unitree: configuration of the writer: %w; optibfm starts this program", err)
	}
	if err := json.Unmarshal(line, &c); err != nil {
		return c, nil, fmt.Errorf("unitree: configuration of the writer: %w; install programs of one version", err)
	}
	if err := c.Config.Validate(); err != nil {
		return c, nil, err
	}
	l := &lifeline{[1]unix.PollFd{{Fd: int32(input.Fd()), Events: unix.POLLIN}}}
	return c, l.cut, nil
}

// lifeline is the pipe whose other end closes when the control process ends. The thread of the
// cycles looks at it itself: a goroutine that waits for its end has no real-time priority.
type lifeline struct{ fds [1]unix.PollFd }

// cut reports whether the other end is closed.
func (l *lifeline) cut() bool {
	n, err := unix.Poll(l.fds[:], 0)
	return err == nil && n > 0 && l.fds[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
}

// newCycle returns the function that runs once a period.
func newCycle(
	role string, c unitree.WriterConfig, p *dds.Participant, shared *unitree.Shared, gone func() bool,
) (func(int64) (bool, error), error) {
	own, err := p.GUID()
	if err != nil {
		return nil, err
	}
	if role == unitree.RoleStandby {
		for i := range shared.StandbyGUID {
			shared.StandbyGUID[i].Store(binary.LittleEndian.Uint64(own[8*i:]))
		}
		b, err := newBus(p, c.Config.Model, use{write: true})
		if err != nil {
			return nil, err
		}
		return newStandby(c, b, shared, gone).cycle, nil
	}
	ours := func(g dds.GUID) bool { return g == own || g == standbyOf(shared) }
	b, err := newBus(p, c.Config.Model, use{write: true, overhear: true, ours: ours})
	if err != nil {
		return nil, err
	}
	w, err := newPrimary(c, b, shared, gone)
	if err != nil {
		return nil, err
	}
	return w.cycle, nil
}

func standbyOf(shared *unitree.Shared) (g dds.GUID) {
	for i := range shared.StandbyGUID {
		binary.LittleEndian.PutUint64(g[8*i:], shared.StandbyGUID[i].Load())
	}
	return g
}

// run runs the cycles on a thread with real-time priority, if the system grants it.
func run(role string, c unitree.Config, cycle func(int64) (bool, error)) error {
	config := rtloop.DefaultConfig()
	config.PeriodMS, config.Priority = float64(Period.Microseconds())/1000, c.RealTimePriority
	config.MaxMissed, config.WatchdogMS, config.MemoryLimitMiB = rtloop.NoLimit, 0, 64
	loop, granted, err := rtloop.Prepare(config)
	if err != nil {
		return err
	}
	for _, g := range granted.Missing() {
		fmt.Fprintf(os.Stderr, "warning: unitree: %s: %s: %s: not granted (%s); %s\n", role, g.Request, g.Asked, g.Why, g.Fix)
	}
	_, err = loop.Run(context.Background(), func(b rtloop.Beat) error {
		over, err := cycle(rtloop.Now())
		if over {
			return errOver
		}
		return err
	})
	if errors.Is(err, errOver) {
		return nil
	}
	return err
}
