// Package dynamixeltest is a chain of X series servos without hardware: it
// answers Protocol 2.0 on a pseudo-terminal, from a control table for each
// servo, and can be told to fail.
package dynamixeltest

import (
	"encoding/binary"
	"time"

	"optibfm/hal/dynamixel"
	"optibfm/hal/servobus/servobustest"
)

// Registers that tests look at (e-manual, control table of the X series).
const (
	OperatingMode = 11
	TorqueEnable  = 64
	HardwareError = 70
	Watchdog      = 98
	GoalPWM       = 100
	GoalCurrent   = 102
	GoalVelocity  = 104
	GoalPosition  = 116
	PresentLoad   = 126
	PresentSpeed  = 128
	PresentPlace  = 132
)

const (
	tableSize    = 256
	ram          = 64 // what lies before it cannot be written with the torque on
	watchdogUnit = 20 * time.Millisecond
	tripped      = 255
)

// The numbers of a status packet's error.
const (
	rangeError  = 4
	accessError = 7
)

// Chain is a bus with servos. Its methods may be called by several goroutines.
type Chain struct {
	*servobustest.Chain[*Servo]
}

// Servo is one servo. Make it with NewServo.
type Servo struct {
	servobustest.Servo
	table [tableSize]byte
	said  [1 + tableSize]byte // the answer's parameters
	last  time.Time           // when it heard its last instruction
}

// NewServo makes a servo as it comes from the factory, but for the operating
// mode and a return delay of 0. model is its number, such as 1020.
func NewServo(id byte, model uint16, mode byte) *Servo {
	s := &Servo{Servo: servobustest.Servo{ID: id}, last: time.Now()}
	put := binary.LittleEndian
	put.PutUint16(s.table[0:], model)
	s.table[6], s.table[7], s.table[8] = 45, id, 3
	s.table[OperatingMode] = mode
	put.PutUint16(s.table[36:], 885)
	put.PutUint16(s.table[38:], 1193)
	put.PutUint32(s.table[44:], 350)
	put.PutUint32(s.table[48:], 4095)
	put.PutUint32(s.table[52:], 0)
	s.table[68] = 2
	put.PutUint32(s.table[PresentPlace:], 2048)
	put.PutUint32(s.table[GoalPosition:], 2048)
	return s
}

// New starts a chain. Close ends it.
func New(servos ...*Servo) (*Chain, error) {
	bus, err := servobustest.New(servos)
	if err != nil {
		return nil, err
	}
	c := &Chain{bus}
	c.Serve(c.take)
	return c, nil
}

// Set writes a register of one, two or four bytes, as if it were the servo
// itself.
func (c *Chain) Set(id byte, register, size int, value int32) {
	c.Change(id, func(s *Servo) {
		for i := range size {
			s.table[register+i] = byte(value >> (8 * i))
		}
	})
}

// Get reads a register of one, two or four bytes, signed.
func (c *Chain) Get(id byte, register, size int) (value int32) {
	c.Change(id, func(s *Servo) {
		s.watch()
		for i := range size {
			value |= int32(s.table[register+i]) << (8 * i)
		}
	})
	shift := 32 - 8*size
	return value << shift >> shift
}

func (c *Chain) take(received []byte) (used int, err error) {
	p, used, err := dynamixel.Decode(received)
	if err == nil {
		c.handle(p)
	}
	return used, err
}

func (c *Chain) handle(p dynamixel.Packet) {
	for _, s := range c.Everyone() {
		s.watch()
		s.last = time.Now()
	}
	switch p.Instruction {
	case dynamixel.SyncRead:
		c.syncRead(p.Params)
	case dynamixel.SyncWrite:
		c.syncWrite(p.Params)
	default:
		if s := c.Find(p.ID); s != nil && s.Hears() {
			c.send(s, s.answer(p))
		}
	}
}

func (c *Chain) syncRead(params []byte) {
	if len(params) < 4 {
		return
	}
	register, size := int(binary.LittleEndian.Uint16(params)), int(binary.LittleEndian.Uint16(params[2:]))
	c.InTurn(params[4:], func(s *Servo) bool { return c.send(s, s.read(register, size)) })
}

func (c *Chain) syncWrite(params []byte) {
	if len(params) < 4 {
		return
	}
	register, size := int(binary.LittleEndian.Uint16(params)), int(binary.LittleEndian.Uint16(params[2:]))
	for rest := params[4:]; len(rest) >= 1+size; rest = rest[1+size:] {
		if s := c.Find(rest[0]); s != nil && s.Hears() {
			s.write(register, rest[1:1+size])
		}
	}
}

// send says whether anything was sent.
func (c *Chain) send(s *Servo, params []byte) bool {
	if s.table[HardwareError] != 0 {
		params[0] |= dynamixel.Alert
	}
	return c.Answer(s, params, func(dst, params []byte) []byte {
		return dynamixel.AppendPacket(dst, dynamixel.Packet{ID: s.ID, Instruction: dynamixel.Status, Params: params})
	})
}

func (s *Servo) answer(p dynamixel.Packet) []byte {
	switch {
	case p.Instruction == dynamixel.Ping:
		return []byte{0, s.table[0], s.table[1], s.table[6]}
	case p.Instruction == dynamixel.RebootNow:
		s.table[HardwareError], s.table[TorqueEnable], s.table[Watchdog] = 0, 0, 0
		return []byte{0}
	case p.Instruction == dynamixel.ReadData && len(p.Params) == 4:
		return s.read(int(binary.LittleEndian.Uint16(p.Params)), int(binary.LittleEndian.Uint16(p.Params[2:])))
	case p.Instruction == dynamixel.WriteData && len(p.Params) > 2:
		return []byte{s.write(int(binary.LittleEndian.Uint16(p.Params)), p.Params[2:])}
	}
	return []byte{2}
}

func (s *Servo) read(register, size int) []byte {
	if register+size > tableSize {
		return []byte{accessError}
	}
	return append(append(s.said[:0], 0), s.table[register:register+size]...)
}

func (s *Servo) write(register int, data []byte) (problem byte) {
	switch {
	case s.Refuses():
		return 1
	case register+len(data) > tableSize, register < ram && s.table[TorqueEnable] != 0:
		return accessError
	case register >= GoalPWM && s.table[Watchdog] == tripped:
		return rangeError
	case register == GoalPosition && !s.within(data, 52, 48):
		return rangeError
	}
	copy(s.table[register:], data)
	s.move()
	return 0
}

// within holds a goal position to the limits, where the mode has them.
func (s *Servo) within(data []byte, low, high int) bool {
	if s.table[OperatingMode] != 3 || len(data) != 4 {
		return true
	}
	goal := int32(binary.LittleEndian.Uint32(data))
	at := func(r int) int32 { return int32(binary.LittleEndian.Uint32(s.table[r:])) }
	return goal >= at(low) && goal <= at(high)
}

// move obeys at once, as an ideal servo would.
func (s *Servo) move() {
	if s.table[TorqueEnable] == 0 {
		clear(s.table[PresentSpeed : PresentSpeed+4])
		return
	}
	switch s.table[OperatingMode] {
	case 0:
		copy(s.table[PresentLoad:PresentLoad+2], s.table[GoalCurrent:])
	case 1:
		copy(s.table[PresentSpeed:PresentSpeed+4], s.table[GoalVelocity:])
	case 3, 4:
		copy(s.table[PresentPlace:PresentPlace+4], s.table[GoalPosition:])
	}
}

// watch is the bus watchdog (e-manual, "Bus Watchdog(98)").
func (s *Servo) watch() {
	limit := time.Duration(s.table[Watchdog]) * watchdogUnit
	if s.table[Watchdog] == 0 || s.table[Watchdog] == tripped || s.table[TorqueEnable] == 0 || time.Since(s.last) <= limit {
		return
	}
	s.table[Watchdog] = tripped
	clear(s.table[PresentSpeed : PresentSpeed+4])
}
