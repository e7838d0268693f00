// Package servobustest is what fake chains of servos have in common, whatever their
// packets and registers: a pseudo-terminal, a goroutine that serves it, and the ways
// in which servos can be told to fail. Packages dynamixeltest and feetechtest build
// on it.
package servobustest

import (
	"errors"
	"fmt"
	"sync"

	"optibfm/hal/serial/serialtest"
	"optibfm/hal/servobus"
)

// Servo is what every fake servo has. Embed it.
type Servo struct {
	ID byte

	mute    int // answers that it swallows; negative: all
	garble  int // answers that it damages
	cut     int // answers that it shortens
	deaf    int // instructions that it misses; negative: all
	refuses bool
}

// Base gives the part of a servo that this package knows.
func (s *Servo) Base() *Servo { return s }

// Hears tells whether the servo hears the instruction that is there for it. Ask once
// for each: it counts what Miss lets it miss.
func (s *Servo) Hears() bool { return !spend(&s.deaf) }

// Refuses tells whether it ignores what is written to it.
func (s *Servo) Refuses() bool { return s.refuses }

// spend takes one of n, of which there is no end where it is negative.
func spend(n *int) bool {
	if *n > 0 {
		*n--
		return true
	}
	return *n < 0
}

// Chain is a bus with servos of type S, a pointer to a struct that embeds Servo. Its
// methods may be called by several goroutines, but for those that say so.
type Chain[S interface {
	comparable
	Base() *Servo
}] struct {
	Path string // of the port

	line   *serialtest.Line
	done   chan struct{}
	mu     sync.Mutex
	servos []S
	echo   bool
	heard  int
	out    []byte // reused: tests count allocations beside the fake
}

// New makes a chain. Call Serve next. Close ends it.
func New[S interface {
	comparable
	Base() *Servo
}](servos []S) (*Chain[S], error) {
	line, err := serialtest.Open()
	if err != nil {
		return nil, fmt.Errorf("servobustest: %w", err)
	}
	return &Chain[S]{Path: line.Path, line: line, done: make(chan struct{}), servos: servos}, nil
}

// Serve begins to serve the line. take obeys the first packet in what was received and
// says how much of it is done with; an error is servobus.ErrIncomplete, or what is wrong
// with the packet.
func (c *Chain[S]) Serve(take func(received []byte) (used int, err error)) { go c.serve(take) }

func (c *Chain[S]) serve(take func([]byte) (int, error)) {
	defer close(c.done)
	buf := make([]byte, 4096)
	held := 0
	for {
		n, err := c.line.Read(buf[held:])
		if err != nil {
			return
		}
		c.mu.Lock()
		if c.echo {
			_, _ = c.line.Write(buf[held : held+n])
		}
		held += n
		for {
			used, err := take(buf[:held])
			held = copy(buf, buf[used:held])
			if errors.Is(err, servobus.ErrIncomplete) {
				break
			}
			if err == nil {
				c.heard++
			}
		}
		c.mu.Unlock()
	}
}

// Close pulls the plug.
func (c *Chain[S]) Close() error {
	err := c.line.Close()
	<-c.done
	return err
}

// Mute lets a servo swallow n answers, or all with n < 0.
func (c *Chain[S]) Mute(id byte, n int) { c.Change(id, func(s S) { s.Base().mute = n }) }

// Garble damages the checksum of n answers.
func (c *Chain[S]) Garble(id byte, n int) { c.Change(id, func(s S) { s.Base().garble = n }) }

// Cut leaves the last parameter out of n answers.
func (c *Chain[S]) Cut(id byte, n int) { c.Change(id, func(s S) { s.Base().cut = n }) }

// Miss lets a servo not hear the next n instructions, or any with n < 0.
func (c *Chain[S]) Miss(id byte, n int) { c.Change(id, func(s S) { s.Base().deaf = n }) }

// Refuse lets a servo ignore what is written to it.
func (c *Chain[S]) Refuse(id byte) { c.Change(id, func(s S) { s.Base().refuses = true }) }

// Echo lets the adapter hear what it sends.
func (c *Chain[S]) Echo() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.echo = true
}

// Heard counts the instructions so far.
func (c *Chain[S]) Heard() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard
}

// Change looks at a servo, or changes it, while nothing is served.
func (c *Chain[S]) Change(id byte, how func(S)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	how(c.Find(id))
}

// Find gives a servo, nil where there is none. It is for take.
func (c *Chain[S]) Find(id byte) (found S) {
	for _, s := range c.servos {
		if s.Base().ID == id {
			return s
		}
	}
	return found
}

// Everyone gives all servos. It is for take.
func (c *Chain[S]) Everyone() []S { return c.servos }

// Answer sends what a servo says, and says whether it did: it may be told to fail.
// packet appends the packet with these parameters, whose last byte is its checksum's.
// It is for take.
func (c *Chain[S]) Answer(s S, params []byte, packet func(dst, params []byte) []byte) bool {
	b := s.Base()
	if spend(&b.mute) {
		return false
	}
	if spend(&b.cut) {
		params = params[:len(params)-1]
	}
	c.out = packet(c.out[:0], params)
	if spend(&b.garble) {
		c.out[len(c.out)-1] ^= 0x40
	}
	_, _ = c.line.Write(c.out)
	return true
}

// InTurn lets servos answer one after the other. Who comes behind a servo that is
// silent stays silent too: that is the worst that firmware does. It is for take.
func (c *Chain[S]) InTurn(ids []byte, answer func(S) (sent bool)) {
	var none S
	for _, id := range ids {
		if s := c.Find(id); s == none || !s.Base().Hears() || !answer(s) {
			return
		}
	}
}
