package mcu

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"optibfm/hal"
	"optibfm/hal/monotonic"
	"optibfm/hal/serial"
)

// Device is a board. It implements hal.Device, hal.FailsafeHolder, hal.DeadmanTimer and
// hal.FaultCounter.
type Device struct {
	config  Config
	port    *serial.Port
	timeout time.Duration
	stale   time.Duration
	deadman uint16 // ms

	name    string
	inputs  []hal.Signal
	outputs []hal.Signal

	decoder Decoder
	rx      []byte
	tx      []byte
	payload []byte
	seq     byte   // of the next frame to the board
	sent    uint64 // number of frames written

	clock    clock
	wire     int64     // time of a sample on the line, ns
	values   []float64 // the newest sample
	at       int64     // its time; 0: no sample yet
	nextSeq  byte      // of the next frame from the board
	counting bool      // nextSeq is valid
	status   status
	answered bool // a STATE has arrived since this was cleared
	reply    []byte
	awaited  byte   // the type of the awaited reply; 0: none
	prefix   []byte // of its payload, which a late reply to an earlier request lacks

	failsafe        []byte // payload of HALT; nil until SetFailsafe
	armed           bool
	lost, lostThere uint64 // frames from the board, and to it
	faults          hal.Faults

	errStale, errHalted, errSilent, errNotFinite error
}

// status is the state that the board reports.
type status struct {
	state, cause byte
	deadman      uint16
	lost         uint16
}

const rxSize = 4096 // buffer size of the kernel's line discipline

// Open opens the port, waits for the firmware, checks the version of the protocol, asks for the
// channels and waits for a sample, or until ctx ends. It does not change the state of the board.
func Open(ctx context.Context, c Config) (*Device, error) {
	d, err := newDevice(c)
	if err != nil {
		return nil, err
	}
	defer d.port.Interrupt(ctx)()
	if err := d.identify(); err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// newDevice opens the port. It sends nothing.
func newDevice(c Config) (*Device, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	port, err := serial.Open(c.Port)
	if err != nil {
		return nil, fmt.Errorf("mcu: %w", err)
	}
	path := c.Port.Path
	return &Device{
		config:  c,
		port:    port,
		timeout: orDefault(c.TimeoutMs, defaultTimeout),
		stale:   orDefault(c.StaleMs, defaultStale),
		deadman: uint16(orDefault(c.DeadmanMs, defaultDeadman).Milliseconds()),
		rx:      make([]byte, rxSize),
		tx:      make([]byte, 0, 1+maxFrame+frameStuffed),
		payload: make([]byte, 0, maxFrame),
		reply:   make([]byte, 0, maxFrame),

		errStale: fmt.Errorf("mcu: %s: %w; check the line, and that the firmware runs", path, hal.ErrStale),
		errHalted: fmt.Errorf("mcu: %s: %w (the firmware is not armed: deadman, fault or restart); "+
			"remove the cause, then arm again", path, hal.ErrDevice),
		errSilent: fmt.Errorf("mcu: %s: %w; check power, wiring and baud, and that the firmware speaks this protocol",
			path, hal.ErrTimeout),
		errNotFinite: fmt.Errorf("mcu: %s: output not finite", path),
	}, nil
}

// repeatEvery is the interval of requests to a board that is still starting.
const repeatEvery = 100 * time.Millisecond

// identify asks the board for its version and channels, and waits for a sample.
func (d *Device) identify() error {
	if err := d.identifyWithin(orDefault(d.config.StartTimeoutMs, defaultStart)); err != nil {
		return fmt.Errorf("mcu: %s: %w", d.config.Port.Path, err)
	}
	return nil
}

func (d *Device) identifyWithin(patience time.Duration) error {
	welcome, err := d.request(Hello, Welcome, []byte{Version}, nil, patience)
	if err != nil {
		return fmt.Errorf("wait %v for the answer to HELLO: %w", patience, err)
	}
	if len(welcome) > 0 && welcome[0] != Version {
		return fmt.Errorf("the firmware's protocol is version %d, not %d; %s", welcome[0], Version, flashFix)
	}
	if len(welcome) < welcomeHead || welcome[1] > MaxChannels || welcome[2] > MaxChannels {
		return fmt.Errorf("invalid WELCOME (%x): %w; %s", welcome, hal.ErrProtocol, flashFix)
	}
	inputs, outputs := int(welcome[1]), int(welcome[2])
	d.name = strings.ToValidUTF8(string(welcome[welcomeHead:]), "?")
	signals := make([]hal.Signal, 0, inputs+outputs)
	for i := range inputs + outputs {
		s, err := d.describe(byte(i), patience)
		if err != nil {
			return err
		}
		signals = append(signals, s)
	}
	d.inputs, d.outputs = signals[:inputs:inputs], signals[inputs:]
	if err := unique(d.inputs); err != nil {
		return err
	}
	if err := unique(d.outputs); err != nil {
		return err
	}
	if err := d.config.checkDeclared(d.inputs, d.outputs); err != nil {
		return err
	}
	d.values = make([]float64, inputs)
	d.wire = int64(d.port.Config().WireTime(sampleHead + 4*inputs + frameHead + frameTail + frameStuffed))
	for end := monotonic.After(patience); d.at == 0; {
		if err := d.pump(end); err != nil {
			return fmt.Errorf("wait %v for a sample: %w", patience, err)
		}
	}
	d.faults, d.lost = hal.Faults{}, 0 // a board that starts may send noise
	return nil
}

const flashFix = "flash a firmware with this repository's optibfm_mcu.h"

func unique(signals []hal.Signal) error {
	seen := map[string]bool{}
	for _, s := range signals {
		if seen[s.Name] {
			return fmt.Errorf("two channels have the same name (%q); change the firmware", s.Name)
		}
		seen[s.Name] = true
	}
	return nil
}

func (d *Device) describe(index byte, patience time.Duration) (hal.Signal, error) {
	channel, err := d.request(Describe, Channel, []byte{index}, []byte{index}, patience)
	if err != nil {
		return hal.Signal{}, fmt.Errorf("wait for the description of channel %d: %w", index, err)
	}
	name, unit, ok := bytes.Cut(channel[1:], []byte{0})
	for _, text := range [][]byte{name, unit} {
		ok = ok && len(text) <= maxText && printable(text)
	}
	if !ok || len(name) == 0 {
		return hal.Signal{}, fmt.Errorf("invalid description of channel %d (%q): %w; "+
			"set name and unit in ASCII, up to %d bytes, in the firmware", index, channel, hal.ErrProtocol, maxText)
	}
	return hal.Signal{Name: string(name), Unit: string(unit)}, nil
}

func printable(text []byte) bool {
	for _, b := range text {
		if b < ' ' || b > '~' {
			return false
		}
	}
	return true
}

// request sends a message repeatedly until an answer arrives whose payload has the prefix. On a
// slow line, late answers to an earlier request arrive in between. It waits: it is for Open.
func (d *Device) request(message, answer byte, payload, prefix []byte, patience time.Duration) ([]byte, error) {
	end := monotonic.After(patience)
	d.awaited, d.prefix, d.reply = answer, prefix, d.reply[:0]
	defer func() { d.awaited = 0 }()
	for {
		deadline := min(end, monotonic.After(repeatEvery))
		if err := d.send(message, payload, deadline); err != nil {
			return nil, err
		}
		for d.awaited != 0 {
			err := d.pump(deadline)
			if errors.Is(err, hal.ErrTimeout) {
				break
			}
			if err != nil {
				return nil, err
			}
		}
		if d.awaited == 0 {
			return bytes.Clone(d.reply), nil
		}
		if monotonic.Now() >= end {
			return nil, d.errSilent
		}
	}
}

// send writes one frame. A zero before it ends what noise has begun, and a board that has restarted
// ignores the bytes before its first zero.
func (d *Device) send(message byte, payload []byte, deadline int64) error {
	d.tx = AppendFrame(append(d.tx[:0], 0), Frame{Type: message, Seq: d.seq, Payload: payload})
	d.seq++
	if err := d.port.Write(d.tx, deadline); err != nil {
		return err
	}
	d.sent++
	return nil
}

// pump waits for bytes and handles the frames in them. It counts damaged frames.
func (d *Device) pump(deadline int64) error {
	n, err := d.port.Read(d.rx, deadline)
	if err != nil {
		return err
	}
	arrival := monotonic.Now()
	for rest := d.rx[:n]; len(rest) > 0; {
		f, used, err := d.decoder.Next(rest)
		rest = rest[used:]
		if err == nil {
			err = d.handle(f, arrival)
		}
		if err != nil && err != ErrIncomplete {
			d.faults.Count(err)
		}
	}
	return nil
}

func (d *Device) handle(f Frame, arrival int64) error {
	d.countGap(f.Seq)
	if f.Type == d.awaited && bytes.HasPrefix(f.Payload, d.prefix) {
		d.awaited, d.reply = 0, append(d.reply[:0], f.Payload...)
	}
	switch f.Type {
	case State:
		return d.handleState(f.Payload)
	case Sample:
		return d.handleSample(f.Payload, arrival)
	case Welcome, Channel:
		return nil
	}
	return hal.ErrProtocol
}

// countGap counts the frames from the board that did not arrive.
func (d *Device) countGap(seq byte) {
	if d.counting && seq != 0 { // 0: the firmware may have restarted
		d.lost += uint64(seq - d.nextSeq)
	}
	d.counting, d.nextSeq = true, seq+1
}

func (d *Device) handleState(p []byte) error {
	if len(p) != stateSize {
		return hal.ErrShort
	}
	d.status.state, d.status.cause, d.status.deadman = p[0], p[1], binary.LittleEndian.Uint16(p[2:])
	d.answered = true
	return nil
}

func (d *Device) handleSample(p []byte, arrival int64) error {
	if d.values == nil {
		return nil // the channels are not known yet
	}
	switch want := sampleHead + 4*len(d.values); {
	case len(p) < want:
		return hal.ErrShort
	case len(p) > want:
		return hal.ErrProtocol
	}
	s := status{
		state: p[4], cause: p[5], deadman: binary.LittleEndian.Uint16(p[6:]), lost: binary.LittleEndian.Uint16(p[9:]),
	}
	d.lostThere += uint64(s.lost - d.status.lost)
	d.status = s
	d.at = d.clock.at(binary.LittleEndian.Uint32(p), arrival-d.wire)
	for i := range d.values {
		d.values[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(p[sampleHead+4*i:])))
	}
	return nil
}

// Name returns the name of the firmware.
func (d *Device) Name() string { return d.name }

// Inputs implements hal.Device.
func (d *Device) Inputs() []hal.Signal { return d.inputs }

// Outputs implements hal.Device.
func (d *Device) Outputs() []hal.Signal { return d.outputs }

// Faults implements hal.FaultCounter.
func (d *Device) Faults() hal.Faults { return d.faults }

// Lost returns the numbers of lost frames from the board and to it, by their sequence numbers.
func (d *Device) Lost() (from, to uint64) { return d.lost, d.lostThere }

// Cause returns the reason why the firmware is halted, according to its newest message
// (PROTOCOL.md); 0 while it is armed.
func (d *Device) Cause() byte { return d.status.cause }

// Deadman implements hal.DeadmanTimer. The firmware has confirmed it.
func (d *Device) Deadman() time.Duration {
	if !d.armed {
		return 0
	}
	return time.Duration(d.deadman) * time.Millisecond
}

// Bounds implements [hal.Bounder]: see [Config.Bounds].
func (d *Device) Bounds() hal.Bounds { return d.config.Bounds(0) }

// Close implements hal.Device.
func (d *Device) Close() error { return d.port.Close() }

// maxReads limits the reads of one call: four full kernel buffers, more than a line delivers in a
// tick.
const maxReads = 4

// Read implements hal.Device. It does not wait.
func (d *Device) Read(dst []float64) (at int64, err error) {
	for range maxReads {
		err := d.pump(0)
		if errors.Is(err, hal.ErrTimeout) {
			break // no more bytes
		}
		if err != nil {
			d.faults.Count(err)
			return 0, err
		}
	}
	if d.at == 0 || monotonic.Now()-d.at > int64(d.stale) {
		d.faults.Stale++
		return 0, d.errStale
	}
	copy(dst, d.values)
	return d.at, nil
}

// SetFailsafe implements hal.FailsafeHolder: Arm sends the outputs to the firmware, for its
// deadman.
func (d *Device) SetFailsafe(outputs []float64) (err error) {
	d.failsafe, err = d.appendOutputs(nil, outputs)
	return err
}

// Write implements hal.Device. Before Arm and after Halt it sends nothing: a program that died may
// have left the firmware armed.
func (d *Device) Write(outputs []float64) error {
	if d.armed && (d.status.state != Armed || d.status.deadman != d.deadman) {
		d.faults.Device++
		return d.errHalted
	}
	p, err := d.appendOutputs(binary.LittleEndian.AppendUint16(d.payload[:0], d.deadman), outputs)
	if err != nil || !d.armed {
		return err
	}
	return d.counted(d.send(Command, p, monotonic.After(d.timeout)))
}

func (d *Device) appendOutputs(p []byte, outputs []float64) ([]byte, error) {
	for _, v := range outputs {
		f := float32(v)
		if math.IsNaN(v) || math.IsInf(float64(f), 0) {
			return p, d.errNotFinite
		}
		p = binary.LittleEndian.AppendUint32(p, math.Float32bits(f))
	}
	return p, nil
}

// Arm implements hal.Device. It opens a lost port again and sends the failsafe. The firmware
// confirms that it is armed, and the deadman that it enforces. Its outputs are the failsafe until
// the next Write.
func (d *Device) Arm() error {
	d.armed = false
	if err := d.reopen(); err != nil {
		return fmt.Errorf("mcu: arm: %w", err)
	}
	if d.failsafe != nil {
		if err := d.counted(d.transactOnce(Halt, d.failsafe)); err != nil {
			return fmt.Errorf("mcu: arm: %w", err)
		}
		if d.status.state != Halted {
			return fmt.Errorf("mcu: arm: %w: it did not take the failsafe", d.errHalted)
		}
	}
	p := binary.LittleEndian.AppendUint16(d.payload[:0], d.deadman)
	if err := d.transact(Arm, p); err != nil {
		return fmt.Errorf("mcu: arm: %w", err)
	}
	if d.status.state != Armed || d.status.deadman != d.deadman {
		d.faults.Device++
		return fmt.Errorf("mcu: arm: %w: state %d, cause %d, deadman %d ms",
			d.errHalted, d.status.state, d.status.cause, d.status.deadman)
	}
	d.armed = true
	return nil
}

// reopen opens a lost port again.
func (d *Device) reopen() error {
	if !d.port.Lost() {
		return nil
	}
	if err := d.port.Recover(); err != nil {
		return d.counted(err)
	}
	d.decoder.Reset()
	d.counting = false
	return nil
}

// Halt implements hal.Device. It opens a lost port again. A firmware that does not confirm is still
// halted by its deadman.
func (d *Device) Halt(failsafe []float64) error {
	d.armed = false
	if err := d.reopen(); err != nil {
		return err
	}
	p, err := d.appendOutputs(d.payload[:0], failsafe)
	if err != nil {
		return err
	}
	return d.haltWith(p)
}

// haltWith sends HALT with the failsafe values. Without values the board uses its own.
func (d *Device) haltWith(values []byte) error {
	if err := d.transact(Halt, values); err != nil {
		return err
	}
	if d.status.state != Halted {
		d.faults.Device++
		return d.errHalted
	}
	return nil
}

// transact sends a message that STATE answers, at most twice.
func (d *Device) transact(message byte, payload []byte) (err error) {
	for try := range 2 {
		if err = d.transactOnce(message, payload); err == nil {
			d.faults.Recovered += uint64(try)
			return nil
		}
		d.faults.Count(err)
		if errors.Is(err, hal.ErrBus) {
			return err
		}
	}
	return err
}

func (d *Device) transactOnce(message byte, payload []byte) error {
	// A STATE that arrived before is not the answer.
	for range maxReads {
		if err := d.pump(0); err != nil {
			break
		}
	}
	deadline := monotonic.After(d.timeout)
	d.answered = false
	if err := d.send(message, payload, deadline); err != nil {
		return err
	}
	for !d.answered {
		if err := d.pump(deadline); err != nil {
			return err
		}
	}
	return nil
}

func (d *Device) counted(err error) error {
	if err != nil {
		d.faults.Count(err)
	}
	return err
}
