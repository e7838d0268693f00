// Package dynamixeltest is a fake chain of X series servos. It answers Protocol 2.0 on a
// pseudo-terminal from a control table for each servo, with injected faults.
package dynamixeltest

import (
	"encoding/binary"
	"time"

	"optibfm/hal/dynamixel"
	"optibfm/hal/servobus/servobustest"
)

// Registers that tests use (e-manual, control table of the X series).
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
	ram          = 64 // lower registers are read-only while the torque is on
	watchdogUnit = 20 * time.Millisecond
	tripped      = 255
	stepsPerTurn = 4096
)

// Error codes of a status packet.
const (
	rangeError  = 4
	accessError = 7
)

// Chain is a bus with servos. Several goroutines may use it.
type Chain struct {
	*servobustest.Chain[*Servo]
}

// Servo is one servo. Create it with NewServo.
type Servo struct {
	servobustest.Servo
	table [tableSize]byte
	reply [1 + tableSize]byte // parameters of the answer
	last  time.Time           // of the latest instruction on the bus
}

// NewServo returns a servo with factory settings, except for the operating mode and a return delay
// of 0. model is its number, such as 1020.
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
	c.Serve(c.decode)
	return c, nil
}

// Set sets a register of one, two or four bytes from inside the servo.
func (c *Chain) Set(id byte, register, size int, value int32) {
	c.Change(id, func(s *Servo) {
		for i := range size {
			s.table[register+i] = byte(value >> (8 * i))
		}
	})
}

// Get returns a register of one, two or four bytes, signed.
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

// PowerCycle restarts a servo. Its goals are 0: that is the worst that firmware does. It forgets
// full turns.
func (c *Chain) PowerCycle(id byte) {
	c.Change(id, func(s *Servo) {
		s.table[TorqueEnable], s.table[HardwareError], s.table[Watchdog] = 0, 0, 0
		clear(s.table[GoalPWM : GoalPosition+4])
		clear(s.table[PresentSpeed : PresentSpeed+4])
		s.forgetTurns()
	})
}

// Pass lets a time without instructions pass for the watchdogs, which also count the real time.
func (c *Chain) Pass(d time.Duration) {
	for _, s := range c.All() {
		c.Change(s.ID, func(s *Servo) { s.last = s.last.Add(-d) })
	}
}

func (c *Chain) decode(received []byte) (used int, err error) {
	p, used, err := dynamixel.Decode(received)
	if err == nil {
		c.execute(p)
	}
	return used, err
}

func (c *Chain) execute(p dynamixel.Packet) {
	for _, s := range c.All() {
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

// send reports whether it sent an answer.
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
	return append(append(s.reply[:0], 0), s.table[register:register+size]...)
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
	if register == TorqueEnable && data[0] != 0 && s.table[TorqueEnable] == 0 && s.table[OperatingMode] == 3 {
		s.forgetTurns()
	}
	copy(s.table[register:], data)
	if register != Watchdog {
		s.move()
	}
	return 0
}

func (s *Servo) place() int32 { return int32(binary.LittleEndian.Uint32(s.table[PresentPlace:])) }

// forgetTurns reduces the position to one turn (e-manual, "Operating Mode(11)").
func (s *Servo) forgetTurns() {
	binary.LittleEndian.PutUint32(s.table[PresentPlace:], uint32(s.place()&(stepsPerTurn-1)))
}

// within checks a goal position against the limits, in the mode that has them.
func (s *Servo) within(data []byte, low, high int) bool {
	if s.table[OperatingMode] != 3 || len(data) != 4 {
		return true
	}
	goal := int32(binary.LittleEndian.Uint32(data))
	at := func(r int) int32 { return int32(binary.LittleEndian.Uint32(s.table[r:])) }
	return goal >= at(low) && goal <= at(high)
}

// move reaches the goal at once.
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
		before := s.place()
		copy(s.table[PresentPlace:PresentPlace+4], s.table[GoalPosition:])
		s.Moved(int(s.place() - before))
	}
}

// watch runs the bus watchdog (e-manual, "Bus Watchdog(98)").
func (s *Servo) watch() {
	limit := time.Duration(s.table[Watchdog]) * watchdogUnit
	running := s.table[Watchdog] != 0 && s.table[Watchdog] != tripped && s.table[TorqueEnable] != 0
	if !running || time.Since(s.last) <= limit {
		return
	}
	s.table[Watchdog] = tripped
	clear(s.table[PresentSpeed : PresentSpeed+4])
}
