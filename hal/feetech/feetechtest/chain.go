// Package feetechtest is a fake chain of STS servos. It answers on a pseudo-terminal from a memory
// table for each servo, with injected faults.
package feetechtest

import (
	"encoding/binary"

	"optibfm/hal/feetech"
	"optibfm/hal/servobus/servobustest"
)

// Registers that tests use (memory table of the STS3215).
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

// Chain is a bus with servos. Several goroutines may use it.
type Chain struct {
	*servobustest.Chain[*Servo]
}

// Servo is one servo. Create it with NewServo.
type Servo struct {
	servobustest.Servo
	table [tableSize]byte
}

// NewServo returns an STS3215 in mode 0 (position) or 1 (velocity).
func NewServo(id, mode byte) *Servo {
	s := &Servo{Servo: servobustest.Servo{ID: id}}
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
	bus, err := servobustest.New(servos)
	if err != nil {
		return nil, err
	}
	c := &Chain{bus}
	c.Serve(c.decode)
	return c, nil
}

// Set sets a register of one byte, or of two with the sign in bit 15, from inside the servo.
func (c *Chain) Set(id byte, register, size, value int) {
	c.Change(id, func(s *Servo) {
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

// Get returns a register of one or two bytes.
func (c *Chain) Get(id byte, register, size int) (value int) {
	c.Change(id, func(s *Servo) {
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

// PowerCycle restarts a servo. Its goals are 0: that is the worst that firmware does.
func (c *Chain) PowerCycle(id byte) {
	c.Change(id, func(s *Servo) {
		s.table[Torque] = 0
		clear(s.table[Goal : Goal+6])
		clear(s.table[Speed : Speed+2])
	})
}

func (c *Chain) decode(received []byte) (used int, err error) {
	p, used, err := feetech.Decode(received)
	if err == nil {
		c.execute(p)
	}
	return used, err
}

func (c *Chain) execute(p feetech.Packet) {
	if len(p.Params) >= 2 && (p.Code == feetech.SyncRead || p.Code == feetech.SyncWrite) {
		c.executeAll(p)
		return
	}
	s := c.Find(p.ID)
	if s == nil || !s.Hears() {
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

func (c *Chain) executeAll(p feetech.Packet) {
	register, size, rest := int(p.Params[0]), int(p.Params[1]), p.Params[2:]
	if p.Code == feetech.SyncRead {
		c.InTurn(rest, func(s *Servo) bool { return c.send(s, s.read(register, size)) })
		return
	}
	for ; len(rest) > size; rest = rest[1+size:] {
		if s := c.Find(rest[0]); s != nil && s.Hears() {
			s.write(register, rest[1:1+size])
		}
	}
}

// send reports whether it sent an answer.
func (c *Chain) send(s *Servo, params []byte) bool {
	return c.Answer(s, params, func(dst, params []byte) []byte {
		return feetech.AppendPacket(dst, feetech.Packet{ID: s.ID, Code: s.table[Status], Params: params})
	})
}

func (s *Servo) read(register, size int) []byte {
	if register+size > tableSize {
		return nil
	}
	return s.table[register : register+size]
}

func (s *Servo) place() int {
	place := int(binary.LittleEndian.Uint16(s.table[Place:]))
	if place >= sign {
		return sign - place
	}
	return place
}

// write writes registers and reaches a goal at once. A goal switches the torque on: that is the
// worst that firmware does.
func (s *Servo) write(register int, data []byte) {
	if s.Refuses() || register+len(data) > tableSize {
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
		before := s.place()
		copy(s.table[Place:Place+2], s.table[Goal:])
		s.Moved(s.place() - before)
	case s.table[Mode] == 1:
		copy(s.table[Speed:Speed+2], s.table[GoalSpeed:])
	}
}
