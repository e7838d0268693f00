package panel

import (
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/rewardsrc"
)

// errHalted ends listen.
var errHalted = errors.New("panel: halted")

// errGone is the loss of a device without another error.
var errGone = errors.New("unplugged, or switched off")

// open opens the device and records the reason of a failure.
func (p *Panel) open() (Conn, error) {
	p.openedAt = p.now()
	conn, err := p.device.Open(p)
	if err != nil {
		err = fmt.Errorf("%s: %w", p.name, err)
		p.absence.Store(&err)
		return nil, err
	}
	p.absence.Store(nil)
	return conn, nil
}

// listen serves the device whenever it is connected, until Halt.
func (p *Panel) listen(conn Conn) {
	for {
		if conn == nil {
			if !p.waitForRetry() {
				return
			}
			conn, _ = p.open() // Poll reports the error
			continue
		}
		err := p.serve(conn)
		p.stream.reset()
		closeErr := p.close(conn)
		if errors.Is(err, errHalted) {
			p.haltErr = closeErr
			return
		}
		conn = nil
		err = fmt.Errorf("%s: lost (%w)", p.name, err)
		p.absence.Store(&err)
	}
}

func (p *Panel) close(conn Conn) error {
	if conn == nil {
		return nil
	}
	if err := conn.Close(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// waitForRetry waits before the next attempt to open the device. It reports
// false after Halt.
func (p *Panel) waitForRetry() bool {
	until := time.Now().Add(p.retry)
	fds := []unix.PollFd{{Fd: int32(p.wake.Fd()), Events: unix.POLLIN}}
	for !p.stopped.Load() {
		left := time.Until(until)
		if left <= 0 {
			return true
		}
		if _, err := unix.Poll(fds, int(left.Milliseconds())+1); err == nil && fds[0].Revents != 0 {
			p.drain()
		}
	}
	return false
}

// drain discards the signals of the time without a device.
func (p *Panel) drain() {
	p.clearWake()
	for {
		select {
		case <-p.signals:
		default:
			return
		}
	}
}

// clearWake resets the eventfd.
func (p *Panel) clearWake() {
	var count [8]byte
	_, _ = unix.Read(int(p.wake.Fd()), count[:])
}

// serve reads one connection until it fails, or until Halt.
func (p *Panel) serve(conn Conn) error {
	lamp, _ := conn.(Lamp)
	if lamp != nil && p.asking.Load() {
		lamp.Signal(Asking, p.now())
	}
	fds := []unix.PollFd{
		{Fd: int32(conn.Fd()), Events: unix.POLLIN},
		{Fd: int32(p.wake.Fd()), Events: unix.POLLIN},
	}
	for !p.stopped.Load() {
		next := p.tick(lamp)
		_, err := unix.Poll(fds, milliseconds(next-p.now()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if fds[1].Revents != 0 {
			p.clearWake()
			p.show(lamp)
		}
		switch {
		case fds[0].Revents&unix.POLLIN != 0:
			err = conn.Read()
		case fds[0].Revents != 0:
			err = errGone
		}
		if err != nil {
			return err
		}
	}
	return errHalted
}

// tick updates the lamp and the stream, and returns the time of the next call.
func (p *Panel) tick(lamp Lamp) (next int64) {
	next = math.MaxInt64
	if lamp != nil {
		next = lamp.Tick(p.now())
	}
	now := p.now()
	if deflection := p.stream.due(now); deflection != 0 {
		in := rewardsrc.Input{Kind: rewardsrc.Value, Mode: rewardsrc.Held, Value: p.cfg.value(deflection), At: now}
		p.queue(press{Input: in, stream: p.stream.number})
	}
	return min(next, p.stream.wake(now))
}

// show passes the pending signals to the lamp.
func (p *Panel) show(lamp Lamp) {
	for {
		select {
		case s := <-p.signals:
			if lamp != nil {
				lamp.Signal(s, p.now())
			}
		default:
			return
		}
	}
}

// milliseconds converts to a timeout for poll, rounded up; -1 for a distant time.
func milliseconds(ns int64) int {
	switch {
	case ns <= 0:
		return 0
	case ns > math.MaxInt32*1e6/2:
		return -1
	}
	return int((ns + 999_999) / 1_000_000)
}
