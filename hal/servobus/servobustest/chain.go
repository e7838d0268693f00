// Package servobustest has what the fake chains of packages dynamixeltest and feetechtest share: a
// pseudo-terminal, a goroutine that serves it, and injected faults. [Run] is the test suite that
// both drivers run against their fake.
package servobustest

import (
	"errors"
	"fmt"
	"sync"

	"optibfm/hal/serial/serialtest"
	"optibfm/hal/servobus"
)

// Servo is the common part of every fake servo. Embed it.
type Servo struct {
	ID byte

	mute         int // answers to suppress; negative: all
	garble       int // answers to damage
	cut          int // answers to shorten
	deaf         int // instructions to miss; negative: all
	ignoreWrites bool
	travel       int // sum of the distances of its movements to goals, in steps
}

// Moved adds a movement to a goal.
func (s *Servo) Moved(steps int) { s.travel += max(steps, -steps) }

// Base returns the common part.
func (s *Servo) Base() *Servo { return s }

// Hears reports whether the servo receives the present instruction. It counts down Miss: call it
// once for each instruction.
func (s *Servo) Hears() bool { return !countDown(&s.deaf) }

// Refuses reports whether the servo ignores writes.
func (s *Servo) Refuses() bool { return s.ignoreWrites }

// countDown reports whether a fault is active, and decrements its count. A negative count stays.
func countDown(n *int) bool {
	if *n > 0 {
		*n--
		return true
	}
	return *n < 0
}

// Chain is a bus with servos of type S, a pointer to a struct that embeds Servo. Several goroutines
// may use it, except for the methods that are for the decode function of Serve.
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
	out    []byte // reused: tests count allocations while the fake runs

	delay   int    // reads whose answers to hold back
	held    []byte // answers that are held back
	answers int    // the instruction that servos answered last, by heard
	holding bool   // its answers are held back
}

// New creates a chain. Call Serve next. Close ends it.
func New[S interface {
	comparable
	Base() *Servo
}](servos []S) (*Chain[S], error) {
	line, err := serialtest.Open()
	if err != nil {
		return nil, fmt.Errorf("servobustest: %w", err)
	}
	return &Chain[S]{Path: line.Path, line: line, done: make(chan struct{}), servos: servos, answers: -1}, nil
}

// Serve starts to serve the line. decode executes the first packet in received and returns how many
// bytes to discard. Its error is servobus.ErrIncomplete, or the fault of the packet.
func (c *Chain[S]) Serve(decode func(received []byte) (used int, err error)) { go c.serve(decode) }

func (c *Chain[S]) serve(decode func([]byte) (int, error)) {
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
			used, err := decode(buf[:held])
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

// Port returns Path.
func (c *Chain[S]) Port() string { return c.Path }

// Close unplugs the chain.
func (c *Chain[S]) Close() error {
	err := c.line.Close()
	<-c.done
	return err
}

// Mute suppresses a servo's next n answers, or all with n < 0.
func (c *Chain[S]) Mute(id byte, n int) { c.Change(id, func(s S) { s.Base().mute = n }) }

// Garble damages the checksum of a servo's next n answers.
func (c *Chain[S]) Garble(id byte, n int) { c.Change(id, func(s S) { s.Base().garble = n }) }

// Cut removes the last parameter from a servo's next n answers.
func (c *Chain[S]) Cut(id byte, n int) { c.Change(id, func(s S) { s.Base().cut = n }) }

// Delay makes the adapter hold back the answers to the next n reads: they arrive when the servos
// answer the following one, before its answers.
func (c *Chain[S]) Delay(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delay = n
}

// Miss makes a servo miss the next n instructions, or all with n < 0.
func (c *Chain[S]) Miss(id byte, n int) { c.Change(id, func(s S) { s.Base().deaf = n }) }

// Refuse makes a servo ignore writes.
func (c *Chain[S]) Refuse(id byte) { c.Change(id, func(s S) { s.Base().ignoreWrites = true }) }

// Travel returns the sum of the distances that a servo has moved to goals, in steps.
func (c *Chain[S]) Travel(id byte) (steps int) {
	c.Change(id, func(s S) { steps = s.Base().travel })
	return steps
}

// Echo makes the adapter receive what it sends.
func (c *Chain[S]) Echo() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.echo = true
}

// Heard returns the number of instructions so far.
func (c *Chain[S]) Heard() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard
}

// Change calls how with a servo, between two instructions.
func (c *Chain[S]) Change(id byte, how func(S)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	how(c.Find(id))
}

// Find returns a servo, or nil. It is for decode.
func (c *Chain[S]) Find(id byte) (found S) {
	for _, s := range c.servos {
		if s.Base().ID == id {
			return s
		}
	}
	return found
}

// All returns all servos. It is for decode.
func (c *Chain[S]) All() []S { return c.servos }

// Answer sends the answer of a servo, subject to injected faults, and reports whether it did.
// packet appends the packet with these parameters; its last byte belongs to the checksum. It is for
// decode.
func (c *Chain[S]) Answer(s S, params []byte, packet func(dst, params []byte) []byte) bool {
	b := s.Base()
	if countDown(&b.mute) {
		return false
	}
	if countDown(&b.cut) {
		params = params[:len(params)-1]
	}
	c.out = packet(c.out[:0], params)
	if countDown(&b.garble) {
		c.out[len(c.out)-1] ^= 0x40
	}
	c.send()
	return true
}

// send sends c.out, or holds it back.
func (c *Chain[S]) send() {
	if c.answers != c.heard { // the first answer to this instruction
		c.answers = c.heard
		_, _ = c.line.Write(c.held)
		c.held, c.holding = c.held[:0], countDown(&c.delay)
	}
	if c.holding {
		c.held = append(c.held, c.out...)
		return
	}
	_, _ = c.line.Write(c.out)
}

// InTurn makes servos answer one after the other. A servo behind a silent one stays silent too:
// that is the worst that firmware does. It is for decode.
func (c *Chain[S]) InTurn(ids []byte, answer func(S) (sent bool)) {
	var none S
	for _, id := range ids {
		if s := c.Find(id); s == none || !s.Base().Hears() || !answer(s) {
			return
		}
	}
}
