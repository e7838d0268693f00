package dynamixel

import (
	"encoding/binary"
	"errors"
	"time"

	"optibfm/hal"
	"optibfm/hal/serial"
)

// bus sends instructions and receives answers. Its errors are bare kinds of
// package hal, or the port's own, which wrap one.
type bus struct {
	port    *serial.Port
	timeout time.Duration

	params []byte // of the instruction that is being made
	tx     []byte
	rx     []byte // rx[:held] was received and not yet decoded
	held   int
	used   int // of rx, by the packet that was given out last

	lastSent int64         // when the servos last heard something
	deadman  time.Duration // 0: they are not armed, or have none
	tripped  bool          // they may have stopped by themselves
}

func newBus(port *serial.Port, servos int) bus {
	params := 4 + servos*(1+4)
	return bus{
		port:   port,
		params: make([]byte, 0, params),
		tx:     make([]byte, 0, headerSize+1+2*params+crcSize),
		rx:     make([]byte, 2*(headerSize+maxLength)),
	}
}

func (b *bus) deadline() int64 { return serial.After(b.timeout) }

// send starts a transaction: what came before it is thrown away.
func (b *bus) send(id, instruction byte, params []byte, deadline int64) error {
	b.held, b.used = 0, 0
	if err := b.port.Drain(); err != nil {
		return err
	}
	b.tx = AppendPacket(b.tx[:0], Packet{ID: id, Instruction: instruction, Params: params})
	if err := b.port.Write(b.tx, deadline); err != nil {
		return err
	}
	now := serial.Monotonic()
	if b.deadman > 0 && now-b.lastSent > int64(b.deadman)*9/10 {
		b.tripped = true
	}
	b.lastSent = now
	return nil
}

// receive gives the next packet that arrives by the deadline. Its parameters
// are valid until the next call.
func (b *bus) receive(deadline int64) (Packet, error) {
	for {
		b.held = copy(b.rx, b.rx[b.used:b.held])
		p, used, err := Decode(b.rx[:b.held])
		b.used = used
		if !errors.Is(err, ErrIncomplete) {
			return p, err
		}
		b.held = copy(b.rx, b.rx[b.used:b.held])
		b.used = 0
		n, err := b.port.Read(b.rx[b.held:], deadline)
		if err != nil {
			return Packet{}, err
		}
		b.held += n
		if serial.Monotonic() > deadline { // a babbling line must not hold the thread
			return Packet{}, hal.ErrTimeout
		}
	}
}

// ask sends an instruction to one servo and gives its answer, without the error
// byte. It tries twice.
func (b *bus) ask(id, instruction byte, params []byte, size int) (answer []byte, err error) {
	for range 2 {
		answer, err = b.tryToAsk(id, instruction, params, size)
		if err == nil || errors.Is(err, hal.ErrBus) {
			return answer, err
		}
	}
	return nil, err
}

func (b *bus) tryToAsk(id, instruction byte, params []byte, size int) ([]byte, error) {
	deadline := b.deadline()
	if err := b.send(id, instruction, params, deadline); err != nil {
		return nil, err
	}
	for {
		p, err := b.receive(deadline)
		if err != nil {
			return nil, err
		}
		if p.ID != id || p.Instruction != Status {
			continue // an echo, or an answer that came late
		}
		return payload(p, size)
	}
}

// payload checks an answer's form and takes the error byte off.
func payload(p Packet, size int) ([]byte, error) {
	switch {
	case len(p.Params) == 0:
		return nil, hal.ErrShort
	case p.Params[0]&ErrorMask != 0:
		return nil, hal.ErrDevice
	case len(p.Params) < 1+size:
		return nil, hal.ErrShort
	case len(p.Params) > 1+size:
		return nil, hal.ErrProtocol
	}
	return p.Params[1:], nil
}

// read gives size bytes of the registers of one servo.
func (b *bus) read(id byte, register uint16, size int) ([]byte, error) {
	b.params = binary.LittleEndian.AppendUint16(b.params[:0], register)
	b.params = binary.LittleEndian.AppendUint16(b.params, uint16(size))
	return b.ask(id, ReadData, b.params, size)
}
