// Package mittest has fake CAN motors. They execute mini cheetah frames in either dialect on a bus
// of package cantest, with injected faults.
package mittest

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"time"

	"optibfm/hal/can"
	"optibfm/hal/can/cantest"
	"optibfm/hal/mit"
)

// Motors is the set of motors on one bus. Several goroutines may use it.
type Motors struct {
	Address string // for mit.Config.Interface
	Bus     *cantest.Bus

	mu     sync.Mutex
	driven bool // Put moves the motors, not their goals
	damiao bool
	motors []*motor
}

type motor struct {
	id, replyID int
	span        mit.Range
	on          bool
	goal        mit.Goal
	now         mit.Answer
	status      byte // damiao: an error, or 0
	code        byte // mit
	timeout     uint32
	heard       time.Time
	mute        int    // answers to suppress; negative: all
	lost        []bool // whether to suppress the next answers
	late        []bool // whether to delay the next answers
	delayed     []can.Frame
	short       int // answers to shorten to 3 bytes
	frames      int
	jumps       int
	stubborn    bool // it ignores Exit
}

const (
	registers   = 0x7FF
	read        = 0x33
	write       = 0x55
	timeoutUnit = 50 * time.Microsecond
	silence     = 0xD
)

// New starts the motors of a configuration. Close stops them.
func New(c mit.Config) (*Motors, error) {
	m := &Motors{damiao: c.Dialect == mit.Damiao}
	for _, each := range c.Motors {
		span := mit.Range{PMax: each.PMax, VMax: each.VMax, TMax: each.TMax, KpMax: 500, KdMax: 5}
		m.motors = append(m.motors, &motor{id: each.ID, replyID: each.ReplyID, span: span})
	}
	bus, err := cantest.New(m.handle)
	if err != nil {
		return nil, fmt.Errorf("mittest: %w", err)
	}
	m.Bus, m.Address = bus, bus.Address
	return m, nil
}

// Close removes the interface.
func (m *Motors) Close() error { return m.Bus.Close() }

// Goal returns the motor's latest goal, and whether it is in motor mode.
func (m *Motors) Goal(id int) (goal mit.Goal, on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.find(id)
	m.watch(one)
	return one.goal, one.on
}

// Put sets the state of a motor.
func (m *Motors) Put(id int, a mit.Answer) { m.change(id, func(one *motor) { one.now = a }) }

// Drive makes Put the only way to move the motors: a simulation reads their goals and computes
// their motion.
func (m *Motors) Drive() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.driven = true
}

// Fail sets an error: a status (damiao) or an error code (mit).
func (m *Motors) Fail(id int, problem byte) {
	m.change(id, func(one *motor) { one.status, one.code, one.on = problem, problem, false })
}

// Mute suppresses the next n answers, or all with n < 0.
func (m *Motors) Mute(id, n int) { m.change(id, func(one *motor) { one.mute = n }) }

// Lose selects which of the next answers are lost, including those about registers.
func (m *Motors) Lose(id int, which ...bool) {
	m.change(id, func(one *motor) { one.lost = which })
}

// Delay selects which of the next answers, including those about registers, arrive only before the
// next timely answer to a command.
func (m *Motors) Delay(id int, which ...bool) {
	m.change(id, func(one *motor) { one.late = which })
}

// Short shortens n answers.
func (m *Motors) Short(id, n int) { m.change(id, func(one *motor) { one.short = n }) }

// Frames returns the number of frames to a motor and to its registers.
func (m *Motors) Frames(id int) (n int) {
	m.change(id, func(one *motor) { n = one.frames })
	return n
}

// Stubborn makes a motor ignore Exit.
func (m *Motors) Stubborn(id int) { m.change(id, func(one *motor) { one.stubborn = true }) }

// Jumps returns the number of commands that pulled a motor away from its position, in
// motor mode or not.
func (m *Motors) Jumps(id int) (n int) {
	m.change(id, func(one *motor) { n = one.jumps })
	return n
}

// Restart cuts and restores the power of a motor.
func (m *Motors) Restart(id int) {
	m.change(id, func(one *motor) { one.on, one.goal, one.status, one.code = false, mit.Goal{}, 0, 0 })
}

func (m *Motors) change(id int, how func(*motor)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	how(m.find(id))
}

func (m *Motors) find(id int) *motor {
	for _, one := range m.motors {
		if one.id == id {
			return one
		}
	}
	return nil
}

func (m *Motors) handle(b *cantest.Bus, f can.Frame) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.damiao && f.ID == registers {
		m.register(b, f)
		return
	}
	one := m.find(int(f.ID))
	if one == nil || f.Len != 8 {
		return
	}
	m.watch(one)
	one.frames++
	one.heard = time.Now()
	m.execute(one, f.Data)
	m.answer(b, one)
}

func (m *Motors) execute(one *motor, data [8]byte) {
	if binary.BigEndian.Uint64(data[:])>>8 != 1<<56-1 {
		goal := one.span.Unpack(data)
		one.watchJump(goal)
		if one.on {
			one.goal = goal
			m.move(one)
		}
		return
	}
	switch data[7] {
	case mit.Enter:
		if one.on = one.status == 0 && one.code == 0; one.on { // it continues its goal, as the original firmware does
			one.watchJump(one.goal)
			m.move(one)
		}
	case mit.Exit:
		one.on = one.on && one.stubborn
	case mit.SetZero:
		one.now.Position = 0
	case mit.Clear:
		one.status, one.code = 0, 0
	}
}

// watchJump counts a goal that pulls the motor to another position.
func (one *motor) watchJump(g mit.Goal) {
	if g.Kp > 0 && math.Abs(g.Position-one.now.Position) > 1e-3 {
		one.jumps++
	}
}

// move reaches the goal at once.
func (m *Motors) move(one *motor) {
	if m.driven {
		return
	}
	g := one.goal
	if g.Kp > 0 {
		one.now.Position = g.Position
	}
	one.now.Velocity, one.now.Torque = g.Velocity, g.Torque
}

// watch runs the CAN timeout of a damiao motor.
func (m *Motors) watch(one *motor) {
	limit := time.Duration(one.timeout) * timeoutUnit
	if m.damiao && one.on && limit > 0 && time.Since(one.heard) > limit {
		one.on, one.status = false, silence
	}
}

// loses returns whether the next answer is lost.
func (one *motor) loses() bool { return next(&one.lost) }

// next removes and returns the first element, false for none.
func next(list *[]bool) (first bool) {
	if len(*list) > 0 {
		first, *list = (*list)[0], (*list)[1:]
	}
	return first
}

// delays keeps a late answer, and returns whether it is one.
func (one *motor) delays(f can.Frame) bool {
	late := next(&one.late)
	if late {
		one.delayed = append(one.delayed, f)
	}
	return late
}

func (m *Motors) answer(b *cantest.Bus, one *motor) {
	if one.loses() {
		return
	}
	if one.mute != 0 {
		if one.mute > 0 {
			one.mute--
		}
		return
	}
	f := can.Frame{ID: uint32(one.replyID), Len: 8}
	one.span.PackAnswer(&f.Data, one.now)
	if m.damiao {
		status := one.status
		if one.on {
			status = 1
		}
		f.Data[0] = byte(one.id)&0x0F | status<<4
		f.Data[6], f.Data[7] = 30, 31 // degrees
	} else {
		f.Data[0], f.Data[6], f.Data[7] = byte(one.id), 70, one.code
	}
	if one.short > 0 {
		one.short--
		f.Len = 3
	}
	if one.delays(f) {
		return
	}
	for _, old := range one.delayed {
		b.Send(old)
	}
	one.delayed = nil
	b.Send(f)
}

// register answers reads and writes of a damiao motor's registers.
func (m *Motors) register(b *cantest.Bus, f can.Frame) {
	one := m.find(int(binary.LittleEndian.Uint16(f.Data[:])))
	if one == nil {
		return
	}
	one.frames++
	lost := one.loses()
	value := binary.LittleEndian.Uint32(f.Data[4:])
	switch number := f.Data[3]; {
	case number == 9 && f.Data[2] == write:
		one.timeout = value
	case number == 9:
		value = one.timeout
	case f.Data[2] != read:
		return
	case number == 21:
		value = math.Float32bits(float32(one.span.PMax))
	case number == 22:
		value = math.Float32bits(float32(one.span.VMax))
	case number == 23:
		value = math.Float32bits(float32(one.span.TMax))
	}
	if lost || one.mute < 0 {
		return
	}
	binary.LittleEndian.PutUint32(f.Data[4:], value)
	f.ID = uint32(one.replyID)
	if !one.delays(f) {
		b.Send(f)
	}
}
