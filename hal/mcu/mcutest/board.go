// Package mcutest is a fake microcontroller. It speaks the protocol of package mcu on a
// pseudo-terminal, with the states and the deadman of PROTOCOL.md and with injected faults.
package mcutest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/hal"
	"optibfm/hal/mcu"
	"optibfm/hal/serial/serialtest"
)

// Firmware describes the program of a board.
type Firmware struct {
	Name            string
	Inputs, Outputs []hal.Signal
	Hz              float64 // of the samples
	// Step advances the body by dt seconds with these outputs, and sets the inputs.
	Step func(dt float64, outputs, inputs []float32)
}

// Rover returns a differential drive with encoders, a battery and an emergency stop. The wheels
// turn as commanded.
func Rover() Firmware {
	return Firmware{
		Name: "rover in Go",
		Hz:   200,
		Inputs: []hal.Signal{
			{Name: "left_position", Unit: "rad"}, {Name: "right_position", Unit: "rad"},
			{Name: "left_velocity", Unit: "rad/s"}, {Name: "right_velocity", Unit: "rad/s"},
			{Name: "battery", Unit: "V"}, {Name: estopClosed},
		},
		Outputs: []hal.Signal{{Name: "left_velocity", Unit: "rad/s"}, {Name: "right_velocity", Unit: "rad/s"}},
		Step: func(dt float64, outputs, inputs []float32) {
			for i, v := range outputs {
				inputs[i] += v * float32(dt)
				inputs[2+i] = v
			}
			inputs[4] = 12
		},
	}
}

// estopClosed is the input that is 1 except during the fault CauseEStop.
const estopClosed = "estop_closed"

// The causes of a halt (PROTOCOL.md).
const (
	CauseBoot    = 1
	CauseHalt    = 2
	CauseDeadman = 3
	CauseEStop   = 16
)

// Board is a running firmware. Several goroutines may use it.
type Board struct {
	Path string // of the port

	line     *serialtest.Line
	firmware Firmware
	closed   atomic.Bool
	stop     chan struct{}
	done     sync.WaitGroup

	mu       sync.Mutex
	started  time.Time
	state    byte
	cause    byte
	fault    byte
	deadman  time.Duration
	heard    time.Time
	outputs  []float32
	failsafe []float32
	inputs   []float32
	seq      byte
	executed byte // number of the latest executed command
	expected byte
	counting bool
	lost     uint16
	commands int // COMMAND frames
	decoder  mcu.Decoder
	out      []byte
	payload  []byte

	drop, garble int
	dropStates   int
	mute         bool
	stubborn     bool
	version      byte
	instead      map[byte][]byte
	late         time.Duration
	delayed      chan delayedFrame
}

// delayedFrame is a frame on a slow line.
type delayedFrame struct {
	frame []byte
	due   time.Time
}

// maxDelayed is the number of frames on a slow line.
const maxDelayed = 1024

// New starts a board. Close stops it.
func New(f Firmware) (*Board, error) {
	line, err := serialtest.Open()
	if err != nil {
		return nil, fmt.Errorf("mcutest: %w", err)
	}
	b := &Board{
		Path: line.Path, line: line, firmware: f, stop: make(chan struct{}), version: mcu.Version,
		instead: map[byte][]byte{}, delayed: make(chan delayedFrame, maxDelayed),
		outputs: make([]float32, len(f.Outputs)), failsafe: make([]float32, len(f.Outputs)),
		inputs: make([]float32, len(f.Inputs)),
	}
	b.Restart()
	b.done.Add(3)
	go b.receive()
	go b.tick()
	go b.deliver()
	return b, nil
}

// Close unplugs the board, once.
func (b *Board) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	close(b.stop)
	err := b.line.Close()
	b.done.Wait()
	return err
}

// Restart resets the board.
func (b *Board) Restart() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.started, b.seq, b.counting, b.lost, b.fault = time.Now(), 0, false, 0, 0
	clear(b.failsafe)
	b.decoder.Reset()
	b.halt(CauseBoot)
}

// Fault halts the board with a cause, and disables arming until Clear.
func (b *Board) Fault(cause byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = cause
	b.halt(cause)
}

// Clear ends a fault. The board stays halted.
func (b *Board) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fault = 0
}

// DropStates suppresses the next n STATE frames.
func (b *Board) DropStates(n int) { b.change(func() { b.dropStates = n }) }

// Drop suppresses the next n frames to the host.
func (b *Board) Drop(n int) { b.change(func() { b.drop = n }) }

// Garble damages the next n frames to the host.
func (b *Board) Garble(n int) { b.change(func() { b.garble = n }) }

// Mute stops or resumes sending.
func (b *Board) Mute(mute bool) { b.change(func() { b.mute = mute }) }

// Stubborn makes the board answer HALT without halting.
func (b *Board) Stubborn(on bool) { b.change(func() { b.stubborn = on }) }

// Version sets the version of the protocol that the board reports.
func (b *Board) Version(v byte) { b.change(func() { b.version = v }) }

// Instead replaces the payload of all frames of a type.
func (b *Board) Instead(message byte, payload []byte) {
	b.change(func() { b.instead[message] = payload })
}

// Late delays all frames to the host, as a slow bridge does. Call it once.
func (b *Board) Late(by time.Duration) { b.change(func() { b.late = by }) }

// Outputs returns the values at the actuators, and whether the board is armed.
func (b *Board) Outputs() (outputs []float32, armed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watch()
	return append([]float32(nil), b.outputs...), b.state == mcu.Armed
}

// Commands returns the number of COMMAND frames.
func (b *Board) Commands() (n int) {
	b.change(func() { n = b.commands })
	return n
}

func (b *Board) change(how func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	how()
}

func (b *Board) halt(cause byte) {
	b.state, b.cause, b.deadman = mcu.Halted, cause, 0
	copy(b.outputs, b.failsafe)
}

func (b *Board) watch() {
	if b.state == mcu.Armed && time.Since(b.heard) > b.deadman {
		b.halt(CauseDeadman)
	}
}

func (b *Board) tick() {
	defer b.done.Done()
	period := time.Duration(float64(time.Second) / b.firmware.Hz)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-ticker.C:
		}
		b.mu.Lock()
		b.watch()
		b.firmware.Step(period.Seconds(), b.outputs, b.inputs)
		b.readStop()
		b.sample()
		b.mu.Unlock()
	}
}

// readStop sets the input of the emergency stop, if the board has one.
func (b *Board) readStop() {
	i := slices.IndexFunc(b.firmware.Inputs, func(s hal.Signal) bool { return s.Name == estopClosed })
	switch {
	case i < 0:
	case b.fault == CauseEStop:
		b.inputs[i] = 0
	default:
		b.inputs[i] = 1
	}
}

func (b *Board) sample() {
	p := binary.LittleEndian.AppendUint32(b.payload[:0], uint32(time.Since(b.started).Microseconds()))
	p = append(p, b.state, b.cause)
	p = binary.LittleEndian.AppendUint16(p, uint16(b.deadman.Milliseconds()))
	p = append(p, b.executed)
	p = binary.LittleEndian.AppendUint16(p, b.lost)
	for _, v := range b.inputs {
		p = binary.LittleEndian.AppendUint32(p, math.Float32bits(v))
	}
	b.payload = p
	b.send(mcu.Sample, p)
}

func (b *Board) send(message byte, payload []byte) {
	if p, ok := b.instead[message]; ok {
		payload = p
	}
	b.out = mcu.AppendFrame(b.out[:0], mcu.Frame{Type: message, Seq: b.seq, Payload: payload})
	b.seq++
	switch {
	case b.mute:
		return
	case b.drop > 0:
		b.drop--
		return
	case b.garble > 0:
		b.garble--
		if b.out[2] ^= 0x80; b.out[2] == 0 { // a zero would end the frame
			b.out[2] = 0x7F
		}
	}
	if b.late == 0 {
		b.write(b.out)
		return
	}
	select {
	case b.delayed <- delayedFrame{bytes.Clone(b.out), time.Now().Add(b.late)}:
	default: // lost
	}
}

// write sends without flow control, as a UART does: a full line loses bytes. A write deadline
// would also lose them when the computer is busy.
func (b *Board) write(frame []byte) {
	raw, err := b.line.SyscallConn()
	if err != nil {
		return // closed
	}
	_ = raw.Write(func(fd uintptr) bool {
		_, _ = unix.Write(int(fd), frame)
		return true
	})
}

// deliver sends delayed frames when they are due.
func (b *Board) deliver() {
	defer b.done.Done()
	for {
		select {
		case <-b.stop:
			return
		case f := <-b.delayed:
			time.Sleep(time.Until(f.due))
			b.write(f.frame)
		}
	}
}

func (b *Board) receive() {
	defer b.done.Done()
	buf := make([]byte, 1024)
	for {
		n, err := b.line.Read(buf)
		if err != nil {
			return
		}
		b.mu.Lock()
		for rest := buf[:n]; len(rest) > 0; {
			f, used, err := b.decoder.Next(rest)
			rest = rest[used:]
			if err == nil {
				b.handle(f)
			} else if !errors.Is(err, mcu.ErrIncomplete) {
				continue // counted as a gap in the sequence numbers
			}
		}
		b.mu.Unlock()
	}
}

func (b *Board) handle(f mcu.Frame) {
	b.watch()
	if b.counting {
		b.lost += uint16(f.Seq - b.expected)
	}
	b.counting, b.expected = true, f.Seq+1
	switch f.Type {
	case mcu.Hello:
		b.send(mcu.Welcome, append([]byte{b.version, byte(len(b.inputs)), byte(len(b.outputs))}, b.firmware.Name...))
	case mcu.Describe:
		b.describe(f.Payload)
	case mcu.Arm:
		b.arm(f.Payload)
	case mcu.Command:
		b.commands++
		b.command(f)
	case mcu.Halt:
		if !b.stubborn {
			b.store(f.Payload, b.failsafe)
			b.halt(max(b.fault, CauseHalt))
		}
		b.sendState()
	}
}

func (b *Board) describe(p []byte) {
	channels := append(append([]hal.Signal(nil), b.firmware.Inputs...), b.firmware.Outputs...)
	if len(p) != 1 || int(p[0]) >= len(channels) {
		return
	}
	c := channels[p[0]]
	b.send(mcu.Channel, []byte(string(p)+c.Name+"\x00"+c.Unit))
}

func (b *Board) arm(p []byte) {
	if len(p) != 2 || binary.LittleEndian.Uint16(p) == 0 {
		return
	}
	if b.fault == 0 {
		b.state, b.cause, b.heard = mcu.Armed, 0, time.Now()
		b.deadman = time.Duration(binary.LittleEndian.Uint16(p)) * time.Millisecond
	}
	b.sendState()
}

func (b *Board) command(f mcu.Frame) {
	if b.state != mcu.Armed || len(f.Payload) < 2 || binary.LittleEndian.Uint16(f.Payload) == 0 {
		return
	}
	if !b.store(f.Payload[2:], b.outputs) {
		return
	}
	b.deadman = time.Duration(binary.LittleEndian.Uint16(f.Payload)) * time.Millisecond
	b.heard, b.executed = time.Now(), f.Seq
}

func (b *Board) store(p []byte, to []float32) bool {
	if len(p) != 4*len(to) {
		return false
	}
	for i := range to {
		to[i] = math.Float32frombits(binary.LittleEndian.Uint32(p[4*i:]))
	}
	return true
}

func (b *Board) sendState() {
	if b.dropStates > 0 {
		b.dropStates--
		return
	}
	p := append(b.payload[:0], b.state, b.cause)
	b.payload = binary.LittleEndian.AppendUint16(p, uint16(b.deadman.Milliseconds()))
	b.send(mcu.State, b.payload)
}
