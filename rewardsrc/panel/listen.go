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

// errGone is the loss of a device that says nothing else.
var errGone = errors.New("unplugged, or switched off")

// open opens the device. It notes whether that went well.
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

// listen serves the device, whenever it is there, until Halt.
func (p *Panel) listen(conn Conn) {
	for {
		if conn == nil {
			if !p.rest() {
				return
			}
			conn, _ = p.open() // an error is told by Poll
			continue
		}
		err := p.serve(conn)
		p.stream.rest()
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

// rest waits before the next look for the device. It is false after Halt.
func (p *Panel) rest() bool {
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

// drain takes what Ask and others signalled while there was no device.
func (p *Panel) drain() {
	p.wakened()
	for {
		select {
		case <-p.signals:
		default:
			return
		}
	}
}

// wakened resets the eventfd, which is readable.
func (p *Panel) wakened() {
	var count [8]byte
	_, _ = unix.Read(int(p.wake.Fd()), count[:])
}

// serve listens to one connection until it breaks, or until Halt.
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
			p.wakened()
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

// tick does what is due and returns when it must be called again.
func (p *Panel) tick(lamp Lamp) (next int64) {
	next = math.MaxInt64
	if lamp != nil {
		next = lamp.Tick(p.now())
	}
	now := p.now()
	if deflection := p.stream.due(now); deflection != 0 {
		p.queue(press{
			kind: Good.kind(), mode: rewardsrc.Held, value: p.cfg.value(deflection), stream: p.stream.number, at: now,
		})
	}
	return min(next, p.stream.wake(now))
}

// show hands the waiting signals to the lamp.
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

// milliseconds is a timeout for poll, rounded up; forever for what is far away.
func milliseconds(ns int64) int {
	switch {
	case ns <= 0:
		return 0
	case ns > math.MaxInt32*1e6/2:
		return -1
	}
	return int((ns + 999_999) / 1_000_000)
}
