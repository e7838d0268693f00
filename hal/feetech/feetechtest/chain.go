// Package feetechtest is a chain of STS servos without hardware: it answers on a
// pseudo-terminal, from a memory table for each servo, and can be told to fail.
package feetechtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"optibfm/hal/feetech"
	"optibfm/hal/serial/serialtest"
	"optibfm/hal/servobus"
)

// Registers that tests look at (memory table of the STS3215).
const (
	Mode      = 33
	Torque    = 40
	Goal      = 42
	GoalSpeed = 46
	Place     = 56
	Speed     = 58
	Status    = 65
	Current   = 69
)

const (
	tableSize = 128
	sign      = 1 << 15
)

// Chain is a bus with servos. Its methods may be called by several goroutines.
type Chain struct {
	Path string // of the port

	line   *serialtest.Line
	done   chan struct{}
	mu     sync.Mutex
	servos []*Servo
	echo   bool
	heard  int
	out    []byte // reused: tests count allocations beside the fake
}

// Servo is one servo. Make it with NewServo.
type Servo struct {
	ID      byte
	table   [tableSize]byte
	mute    int // answers that it swallows; negative: all
	garble  int // answers that it damages
	cut     int // answers that it shortens
	deaf    int // instructions that it misses; negative: all
	refuses bool
}

// NewServo makes an STS3215 in mode 0 (position) or 1 (velocity).
func NewServo(id, mode byte) *Servo {
	s := &Servo{ID: id}
	put := binary.LittleEndian
	put.PutUint16(s.table[3:], 777)
	s.table[5], s.table[8], s.table[Mode] = id, 1, mode
	put.PutUint16(s.table[11:], 4095)
	put.PutUint16(s.table[Place:], 2048)
	put.PutUint16(s.table[Goal:], 2048)
	return s
}

// New starts a chain. Close ends it.
func New(servos ...*Servo) (*Chain, error) {
	line, err := serialtest.Open()
	if err != nil {
		return nil, fmt.Errorf("feetechtest: %w", err)
	}
	c := &Chain{Path: line.Path, line: line, done: make(chan struct{}), servos: servos}
	go c.serve()
	return c, nil
}

// Close pulls the plug.
func (c *Chain) Close() error {
	err := c.line.Close()
	<-c.done
	return err
}

// Set writes a register of one or two bytes, two with the sign in bit 15, as if it
// were the servo itself.
func (c *Chain) Set(id byte, register, size, value int) {
	c.change(id, func(s *Servo) {
		if size == 1 {
			s.table[register] = byte(value)
			return
		}
		if value < 0 {
			value = -value | sign
		}
		binary.LittleEndian.PutUint16(s.table[register:], uint16(value))
	})
}

// Get reads a register of one or two bytes.
func (c *Chain) Get(id byte, register, size int) (value int) {
	c.change(id, func(s *Servo) {
		if size == 1 {
			value = int(s.table[register])
			return
		}
		value = int(binary.LittleEndian.Uint16(s.table[register:]))
		if value&sign != 0 {
			value = -(value &^ sign)
		}
	})
	return value
}

// Mute lets a servo swallow n answers, or all with n < 0.
func (c *Chain) Mute(id byte, n int) { c.change(id, func(s *Servo) { s.mute = n }) }

// Garble damages the checksum of n answers.
func (c *Chain) Garble(id byte, n int) { c.change(id, func(s *Servo) { s.garble = n }) }

// Cut leaves the last parameter out of n answers.
func (c *Chain) Cut(id byte, n int) { c.change(id, func(s *Servo) { s.cut = n }) }

// Miss lets a servo not hear the next n instructions, or any with n < 0.
func (c *Chain) Miss(id byte, n int) { c.change(id, func(s *Servo) { s.deaf = n }) }

// Refuse lets a servo ignore what is written to it.
func (c *Chain) Refuse(id byte) { c.change(id, func(s *Servo) { s.refuses = true }) }

// Echo lets the adapter hear what it sends.
func (c *Chain) Echo() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.echo = true
}

// Heard counts the instructions so far.
func (c *Chain) Heard() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard
}

func (c *Chain) change(id byte, how func(*Servo)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	how(c.find(id))
}

func (c *Chain) find(id byte) *Servo {
	for _, s := range c.servos {
		if s.ID == id {
			return s
		}
	}
	return nil
}

func (c *Chain) serve() {
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
			p, used, err := feetech.Decode(buf[:held])
			if err == nil {
				c.handle(p)
			}
			held = copy(buf, buf[used:held])
			if errors.Is(err, servobus.ErrIncomplete) {
				break
			}
		}
		c.mu.Unlock()
	}
}

func (c *Chain) handle(p feetech.Packet) {
	c.heard++
	if len(p.Params) >= 2 && (p.Code == feetech.SyncRead || p.Code == feetech.SyncWrite) {
		c.handleAll(p)
		return
	}
	s := c.find(p.ID)
	if s == nil || !s.hears() {
		return
	}
	switch {
	case p.Code == feetech.Ping:
		c.send(s, nil)
	case p.Code == feetech.ReadData && len(p.Params) == 2:
		c.send(s, s.read(int(p.Params[0]), int(p.Params[1])))
	case p.Code == feetech.WriteData && len(p.Params) > 1:
		s.write(int(p.Params[0]), p.Params[1:])
		c.send(s, nil)
	}
}

// handleAll answers sync reads in turn. Who comes behind a servo that is silent
// stays silent too: that is the worst that firmware does.
func (c *Chain) handleAll(p feetech.Packet) {
	register, size, rest := int(p.Params[0]), int(p.Params[1]), p.Params[2:]
	if p.Code == feetech.SyncRead {
		for _, id := range rest {
			s := c.find(id)
			if s == nil || !s.hears() || !c.send(s, s.read(register, size)) {
				return
			}
		}
		return
	}
	for ; len(rest) > size; rest = rest[1+size:] {
		if s := c.find(rest[0]); s != nil && s.hears() {
			s.write(register, rest[1:1+size])
		}
	}
}

// send says whether anything was sent.
func (c *Chain) send(s *Servo, params []byte) bool {
	if s.mute != 0 {
		if s.mute > 0 {
			s.mute--
		}
		return false
	}
	if s.cut > 0 {
		s.cut--
		params = params[:len(params)-1]
	}
	c.out = feetech.AppendPacket(c.out[:0], feetech.Packet{ID: s.ID, Code: s.table[Status], Params: params})
	if s.garble > 0 {
		s.garble--
		c.out[len(c.out)-1] ^= 0x40
	}
	_, _ = c.line.Write(c.out)
	return true
}

func (s *Servo) hears() bool {
	if s.deaf == 0 {
		return true
	}
	if s.deaf > 0 {
		s.deaf--
	}
	return false
}

func (s *Servo) read(register, size int) []byte {
	if register+size > tableSize {
		return nil
	}
	return s.table[register : register+size]
}

// write obeys at once, as an ideal servo would. A goal switches the torque on, which
// is the worst that firmware does.
func (s *Servo) write(register int, data []byte) {
	if s.refuses || register+len(data) > tableSize {
		return
	}
	copy(s.table[register:], data)
	if register == Goal || register == GoalSpeed {
		s.table[Torque] = 1
	}
	clear(s.table[Speed : Speed+2])
	switch {
	case s.table[Torque] == 0:
	case s.table[Mode] == 0:
		copy(s.table[Place:Place+2], s.table[Goal:])
	case s.table[Mode] == 1:
		copy(s.table[Speed:Speed+2], s.table[GoalSpeed:])
	}
}
