package servobus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"optibfm/hal"
	"optibfm/hal/monotonic"
	"optibfm/hal/serial"
)

// Protocol encodes the requests and decodes the status packets of a servo family. The Append
// methods append to dst.
type Protocol interface {
	// AppendRead requests size bytes, beginning at register, from one servo.
	AppendRead(dst []byte, id byte, register, size int) []byte
	// AppendSyncRead requests size bytes, beginning at register, from each servo in ids.
	AppendSyncRead(dst []byte, register, size int, ids []byte) []byte
	// AppendSyncWrite writes size bytes, beginning at register, to each servo. data holds an ID and
	// size bytes for each.
	AppendSyncWrite(dst []byte, register, size int, data []byte) []byte
	// Decode decodes the first packet in b and skips what precedes it. used is the number of bytes
	// to discard, also after an error. The error is ErrIncomplete, hal.ErrChecksum or
	// hal.ErrProtocol.
	Decode(b []byte) (s Status, used int, err error)
}

// Status is the status packet of a servo. A packet that is none, such as the echo of a request, has
// the ID NoServo.
type Status struct {
	ID       byte
	Rejected bool   // the servo did not execute the instruction
	Alert    bool   // the servo reports a hardware fault
	Data     []byte // valid until more bytes are read
}

// NoServo is the ID of a packet that is not a status packet.
const NoServo = 0xFF

// ErrIncomplete is Decode's error for a packet that needs more bytes.
var ErrIncomplete = errors.New("servobus: packet incomplete")

// Servo is a member of the chain.
type Servo struct {
	Name string
	ID   byte
}

// MaxBlock is the largest number of bytes per servo in one transaction.
const MaxBlock = 32

// MaxExtra is the largest number of bytes that a read requests beyond its size. Status packets have
// no sequence number: a late one, which was in a USB adapter when the next request was sent, is
// recognised by its length. Therefore each read after a missing answer requests another number of
// bytes: 0 to MaxExtra more than its size.
const MaxExtra = 2

const rxSize = 4096

// Bus is a chain of servos on a port. Only one thread may use it. Servos are numbered as given to
// New.
type Bus struct {
	Port         *serial.Port
	Faults       hal.Faults
	ErrNotFinite error // of an output

	driver   string
	protocol Protocol
	timeout  time.Duration
	members  []member
	order    []int // in which servos are asked: one that did not answer moves to the end
	pending  []int // the servos of the present sync read
	first    int   // the first of them without a valid answer
	extra    int   // bytes that a read requests beyond its size

	data []byte // payload of the request
	tx   []byte
	rx   []byte // rx[used:held] is received and not decoded
	held int
	used int

	lastSent int64         // when the servos last received a request
	deadman  time.Duration // 0: silences are not watched
	silent   bool
}

type member struct {
	Servo
	data  [MaxBlock]byte
	fault error // of its latest answer: a kind of package hal, or nil
	alert bool
	errs  [len(faultKinds)]error
}

// faultKinds are the faults of one servo.
var faultKinds = [...]struct {
	kind error
	fix  string
}{
	{hal.ErrTimeout, "check its power and cable"},
	{hal.ErrChecksum, "check wiring, termination and baud"},
	{hal.ErrShort, "check for two servos with this ID"},
	{hal.ErrProtocol, "check for two servos with this ID"},
	{hal.ErrDevice, "it rejected the instruction or does not hold the written value: arm again"},
}

// New returns a bus. driver is the prefix of its errors.
func New(driver string, port *serial.Port, protocol Protocol, servos []Servo) *Bus {
	n := len(servos)
	b := &Bus{
		Port: port, driver: driver, protocol: protocol,
		ErrNotFinite: fmt.Errorf("%s: %s: output not finite", driver, port.Config().Path),
		members:      make([]member, n), order: make([]int, n), pending: make([]int, 0, n),
		data: make([]byte, 0, n*(1+MaxBlock)), tx: make([]byte, 0, 2*n*(1+MaxBlock)+64), rx: make([]byte, rxSize),
	}
	for i, s := range servos {
		b.order[i] = i
		m := &b.members[i]
		m.Servo = s
		for k, f := range faultKinds {
			m.errs[k] = fmt.Errorf("%s: %q (ID %d): %w; %s", driver, s.Name, s.ID, f.kind, f.fix)
		}
	}
	return b
}

// Probe probes every servo and sets the timeout that the longest return delay needs. It ends with
// ctx. After an error it closes the port.
func (b *Bus) Probe(ctx context.Context, probe func(i int) (returnDelay time.Duration, err error),
	timeout func(returnDelay time.Duration) (time.Duration, error)) (err error) {
	defer b.Port.Interrupt(ctx)()
	defer func() {
		if err != nil {
			_ = b.Port.Close()
		}
	}()
	var slowest time.Duration
	for i := range b.members {
		delay, err := probe(i)
		if err != nil {
			return err
		}
		slowest = max(slowest, delay)
	}
	limit, err := timeout(slowest)
	if err != nil {
		return err
	}
	b.timeout = limit
	return nil
}

// CheckFinite returns ErrNotFinite if an output is not finite.
func (b *Bus) CheckFinite(outputs []float64) error {
	for _, v := range outputs {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return b.ErrNotFinite
		}
	}
	return nil
}

// Timeout returns the time limit of one transaction.
func (b *Bus) Timeout() time.Duration { return b.timeout }

// SetTimeout sets the time limit of one transaction.
func (b *Bus) SetTimeout(d time.Duration) { b.timeout = d }

// Deadline returns the deadline of a transaction that begins now.
func (b *Bus) Deadline() int64 { return monotonic.After(b.timeout) }

// Recover opens a lost port again: see [serial.Port.Recover].
func (b *Bus) Recover() error {
	err := b.Port.Recover()
	if err != nil {
		b.Faults.Count(err)
	}
	return err
}

// WatchSilence starts to watch for silences that trip the servos' own watchdogs, and clears
// SilenceExceeded. A deadman of 0 stops it.
func (b *Bus) WatchSilence(deadman time.Duration) { b.deadman, b.silent = deadman, false }

// SilenceExceeded reports whether, since WatchSilence, no request was sent for nine tenths of the
// deadman: the servos' watchdogs may have tripped.
func (b *Bus) SilenceExceeded() bool { return b.silent }

// Data returns the data of servo i's latest valid answer.
func (b *Bus) Data(i int) []byte { return b.members[i].data[:] }

// Answered reports whether servo i's answer to the latest sync read was valid.
func (b *Bus) Answered(i int) bool { return b.members[i].fault == nil }

// Alert reports whether servo i's latest answer had the alert bit.
func (b *Bus) Alert(i int) bool { return b.members[i].alert }

// Fail counts a fault of servo i and returns its error.
func (b *Bus) Fail(i int, kind error) error {
	b.Faults.Count(kind)
	return b.errorOf(i, kind)
}

// Outside returns the error of servo i's position, in rad, outside of its limits.
func (b *Bus) Outside(i int, position, low, high float64) error {
	m := &b.members[i]
	return fmt.Errorf("%s: %q (ID %d): position %.3f rad is outside of its limits, %.3f to %.3f rad; "+
		"move it within them, or change the limits of the servo", b.driver, m.Name, m.ID, position, low, high)
}

func (b *Bus) errorOf(i int, kind error) error {
	for k, f := range faultKinds {
		if f.kind == kind {
			return b.members[i].errs[k]
		}
	}
	return kind
}

// send discards earlier input and sends b.tx.
func (b *Bus) send(deadline int64) error {
	b.held, b.used = 0, 0
	if err := b.Port.Drain(); err != nil {
		return err
	}
	if err := b.Port.Write(b.tx, deadline); err != nil {
		return err
	}
	now := monotonic.Now()
	if b.deadman > 0 && now-b.lastSent > int64(b.deadman)*9/10 {
		b.silent = true
	}
	b.lastSent = now
	return nil
}

// receive returns the next packet that arrives by the deadline. The error is a kind of package hal,
// or the port's.
func (b *Bus) receive(deadline int64) (Status, error) {
	for {
		b.held = copy(b.rx, b.rx[b.used:b.held])
		s, used, err := b.protocol.Decode(b.rx[:b.held])
		b.used = used
		if err != ErrIncomplete {
			return s, err
		}
		b.held = copy(b.rx, b.rx[b.used:b.held])
		b.used = 0
		n, err := b.Port.Read(b.rx[b.held:], deadline)
		if err != nil {
			return Status{}, err
		}
		b.held += n
		if monotonic.Now() > deadline { // noise without end must not hold the thread
			return Status{}, hal.ErrTimeout
		}
	}
}

// late reports whether an answer is one to an earlier read, when size bytes are requested now.
func (b *Bus) late(s Status, size int) bool {
	n, shortest := len(s.Data), size-b.extra
	return !s.Rejected && n != size && shortest <= n && n <= shortest+MaxExtra
}

// nextExtra changes the length of the next answers, because one is missing and may be late.
func (b *Bus) nextExtra() { b.extra = (b.extra + 1) % (MaxExtra + 1) }

// check validates the form of an answer of size bytes.
func check(s Status, size int) error {
	switch {
	case s.Rejected:
		return hal.ErrDevice
	case len(s.Data) < size:
		return hal.ErrShort
	case len(s.Data) > size:
		return hal.ErrProtocol
	}
	return nil
}

// Ping sends a ping packet to one servo, at most twice, and returns the size bytes of its answer.
// Ping and Read are for opening: they allocate and count nothing.
func (b *Bus) Ping(id byte, packet []byte, size int) ([]byte, error) {
	return b.request(id, func() int {
		b.tx = append(b.tx[:0], packet...)
		return size
	})
}

// Read reads size bytes, beginning at register, from one servo. It tries at most twice.
func (b *Bus) Read(id byte, register, size int) ([]byte, error) {
	data, err := b.request(id, func() int {
		b.tx = b.protocol.AppendRead(b.tx[:0], id, register, size+b.extra)
		return size + b.extra
	})
	if err != nil {
		return nil, err
	}
	return data[:size], nil
}

// request sends the requests that compose writes to b.tx, at most two. compose returns the size of
// the answer.
func (b *Bus) request(id byte, compose func() (size int)) (data []byte, err error) {
	for range 2 {
		data, err = b.requestOnce(id, compose())
		if err == nil || errors.Is(err, hal.ErrBus) {
			return data, err
		}
		b.nextExtra()
	}
	return nil, err
}

func (b *Bus) requestOnce(id byte, size int) ([]byte, error) {
	deadline := b.Deadline()
	if err := b.send(deadline); err != nil {
		return nil, err
	}
	for {
		s, err := b.receive(deadline)
		if err != nil {
			return nil, err
		}
		if s.ID == id && !b.late(s, size) { // else an echo, or a late answer
			return append([]byte(nil), s.Data...), check(s, size)
		}
	}
}

// SyncWrite writes size bytes, beginning at register, to the servos in data (ID and bytes of each).
// Servos do not answer it.
func (b *Bus) SyncWrite(register, size int, data []byte, deadline int64) error {
	b.tx = b.protocol.AppendSyncWrite(b.tx[:0], register, size, data)
	err := b.send(deadline)
	if err != nil {
		b.Faults.Count(err)
	}
	return err
}

// WriteAll writes one byte to the same register of every servo.
func (b *Bus) WriteAll(register int, value byte) error {
	b.data = b.data[:0]
	for i := range b.members {
		b.data = append(b.data, b.members[i].ID, value)
	}
	return b.SyncWrite(register, 1, b.data, b.Deadline())
}

// SyncRead reads the same registers of every servo, and repeats the request once for the servos
// without a valid answer. at is the time of the first request.
func (b *Bus) SyncRead(register, size int) (at int64, err error) {
	b.selectAll()
	if err := b.query(register, size); err != nil {
		return 0, err
	}
	at = b.lastSent
	repeated := b.selectFailed()
	if repeated == 0 {
		return at, nil
	}
	if err := b.query(register, size); err != nil {
		return 0, err
	}
	failed := b.selectFailed()
	b.Faults.Recovered += uint64(repeated - failed)
	return at, b.firstFault()
}

// SyncReadOnce is SyncRead without the repetition.
func (b *Bus) SyncReadOnce(register, size int) error {
	b.selectAll()
	if err := b.query(register, size); err != nil {
		return err
	}
	b.selectFailed()
	return b.firstFault()
}

// firstFault returns the error of the first servo that selectFailed kept.
func (b *Bus) firstFault() error {
	if len(b.pending) == 0 {
		return nil
	}
	return b.errorOf(b.first, b.members[b.first].fault)
}

// Verify fails with hal.ErrDevice for the first servo whose data of the latest sync read is not as
// wanted.
func (b *Bus) Verify(wanted func(i int, data []byte) bool) error {
	for i := range b.members {
		if !wanted(i, b.members[i].data[:]) {
			return b.Fail(i, hal.ErrDevice)
		}
	}
	return nil
}

// TryTwice calls attempt, and a second time after an error.
func (b *Bus) TryTwice(attempt func() error) error {
	if attempt() == nil {
		return nil
	}
	err := attempt()
	if err == nil {
		b.Faults.Recovered++
	}
	return err
}

func (b *Bus) selectAll() { b.pending = append(b.pending[:0], b.order...) }

// selectFailed counts the pending servos without a valid answer and keeps only them. It moves the
// first to the end, also for later reads: servos answer in turn, and those behind a dead servo may
// have waited for it.
func (b *Bus) selectFailed() int {
	kept := b.pending[:0]
	for _, i := range b.pending {
		if fault := b.members[i].fault; fault != nil {
			b.Faults.Count(fault)
			kept = append(kept, i)
		}
	}
	if len(kept) > 0 {
		b.nextExtra()
		b.first = kept[0]
		moveLast(kept, b.first)
		moveLast(b.order, b.first)
	}
	b.pending = kept
	return len(kept)
}

// moveLast moves an element to the end.
func moveLast(list []int, element int) {
	i := slices.Index(list, element)
	copy(list[i:], list[i+1:])
	list[len(list)-1] = element
}

// query sends one sync read to the pending servos and receives answers until the deadline. The
// error is the port's.
func (b *Bus) query(register, size int) error {
	b.data = b.data[:0]
	for _, i := range b.pending {
		m := &b.members[i]
		m.fault, m.alert = hal.ErrTimeout, false
		b.data = append(b.data, m.ID)
	}
	size += b.extra
	b.tx = b.protocol.AppendSyncRead(b.tx[:0], register, size, b.data)
	deadline := b.Deadline()
	err := b.send(deadline)
	for outstanding := len(b.pending); outstanding > 0 && err == nil; {
		var s Status
		s, err = b.receive(deadline)
		switch {
		case err == nil:
			if b.accept(s, size) {
				outstanding--
			}
		case errors.Is(err, hal.ErrTimeout):
			return nil
		case !errors.Is(err, hal.ErrBus):
			b.attribute(err)
			err = nil
		}
	}
	if err != nil {
		b.Faults.Count(err)
	}
	return err
}

// accept stores an answer and reports whether it was outstanding.
func (b *Bus) accept(s Status, size int) bool {
	for _, i := range b.pending {
		m := &b.members[i]
		if m.ID != s.ID || m.fault == nil || b.late(s, size) {
			continue
		}
		m.fault, m.alert = check(s, size), s.Alert
		copy(m.data[:], s.Data)
		return true
	}
	return false
}

// attribute assigns a damaged answer to the servo whose turn it was.
func (b *Bus) attribute(kind error) {
	for _, i := range b.pending {
		if m := &b.members[i]; m.fault == hal.ErrTimeout {
			m.fault = kind
			return
		}
	}
}
