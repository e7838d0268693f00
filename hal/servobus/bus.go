package servobus

import (
	"errors"
	"fmt"
	"time"

	"optibfm/hal"
	"optibfm/hal/monotonic"
	"optibfm/hal/serial"
)

// Protocol makes and takes the packets of a family of servos. Its Append
// methods append a packet to dst.
type Protocol interface {
	// AppendSyncRead asks servos for size bytes of their registers.
	AppendSyncRead(dst []byte, register, size int, ids []byte) []byte
	// AppendSyncWrite writes them; data has the ID and size bytes of each
	// servo.
	AppendSyncWrite(dst []byte, register, size int, data []byte) []byte
	// Take takes the first packet out of b, whatever stands before it. used is
	// how much of b is done with, also after an error: ErrIncomplete (more must
	// be read), or what is wrong with the packet, hal.ErrChecksum or
	// hal.ErrProtocol.
	Take(b []byte) (a Answer, used int, err error)
}

// Answer is a packet from a servo. What is not one, such as the echo of a
// request, has ID Nobody.
type Answer struct {
	ID      byte
	Refused bool   // it did not do what it was asked
	Alert   bool   // it has a fault of its own
	Data    []byte // valid until more is read
}

// Nobody is the ID of a packet that is no answer.
const Nobody = 0xFF

// ErrIncomplete is what Take returns while the packet has not arrived whole.
var ErrIncomplete = errors.New("servobus: the packet has not arrived whole")

// Member is a servo of the bus.
type Member struct {
	Name string
	ID   byte
}

// MaxBlock is the most bytes that can be read from or written to each servo in
// one transaction.
const MaxBlock = 32

const rxSize = 4096

// Bus is a chain of servos on a port. It is used by one thread.
type Bus struct {
	Port   *serial.Port
	Faults hal.Faults

	protocol Protocol
	timeout  time.Duration
	members  []member
	order    []int // of the members that are asked

	data []byte // of the request that is being made
	tx   []byte
	rx   []byte // rx[used:held] was received and not yet decoded
	held int
	used int // of rx, by the answer that was given out last

	lastSent int64         // when the servos last heard something
	deadman  time.Duration // 0: nobody watches
	tripped  bool
}

type member struct {
	Member
	answer  [MaxBlock]byte
	problem error // a bare kind of package hal; nil: the answer is good
	alert   bool
	errs    [len(kinds)]error
}

// kinds are what can be wrong with one servo.
var kinds = [...]struct {
	kind error
	mend string
}{
	{hal.ErrTimeout, "see its power and cable"},
	{hal.ErrChecksum, "see wiring, termination and baud"},
	{hal.ErrShort, "see whether two servos have this ID"},
	{hal.ErrProtocol, "see whether two servos have this ID"},
	{hal.ErrDevice, "it refused the instruction or does not hold what was written: arm again"},
}

// New makes a bus. driver is the word that its errors begin with.
func New(driver string, port *serial.Port, protocol Protocol, members []Member) *Bus {
	n := len(members)
	b := &Bus{
		Port: port, protocol: protocol, members: make([]member, n), order: make([]int, 0, n),
		data: make([]byte, 0, n*(1+MaxBlock)), tx: make([]byte, 0, 2*n*(1+MaxBlock)+64), rx: make([]byte, rxSize),
	}
	for i, m := range members {
		b.members[i].Member = m
		for k, each := range kinds {
			b.members[i].errs[k] = fmt.Errorf("%s: %q (ID %d): %w: %s", driver, m.Name, m.ID, each.kind, each.mend)
		}
	}
	return b
}

// Timeout is the limit of one transaction.
func (b *Bus) Timeout() time.Duration { return b.timeout }

// SetTimeout sets it.
func (b *Bus) SetTimeout(d time.Duration) { b.timeout = d }

// Deadline is that of a transaction that begins now.
func (b *Bus) Deadline() int64 { return monotonic.After(b.timeout) }

// Guard begins to watch for silences that let the servos' own watchdogs trip, and
// forgets what was; 0 ends it.
func (b *Bus) Guard(deadman time.Duration) { b.deadman, b.tripped = deadman, false }

// Tripped tells whether there was a silence of more than nine tenths of the
// deadman since Guard: the servos may have stopped by themselves.
func (b *Bus) Tripped() bool { return b.tripped }

// Answer is what member i answered last, to a transaction that succeeded.
func (b *Bus) Answer(i int) []byte { return b.members[i].answer[:] }

// Alert tells whether member i's last answer said that it has a fault.
func (b *Bus) Alert(i int) bool { return b.members[i].alert }

// Fail counts a failure of member i and gives its error, made when the bus was.
func (b *Bus) Fail(i int, kind error) error {
	b.Faults.Count(kind)
	return b.errorOf(i, kind)
}

func (b *Bus) errorOf(i int, kind error) error {
	for k, each := range kinds {
		if each.kind == kind {
			return b.members[i].errs[k]
		}
	}
	return kind
}

// send starts a transaction with b.tx: what came before it is thrown away.
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
		b.tripped = true
	}
	b.lastSent = now
	return nil
}

// receive gives the next packet that arrives by the deadline. An error is a
// bare kind, or the port's own.
func (b *Bus) receive(deadline int64) (Answer, error) {
	for {
		b.held = copy(b.rx, b.rx[b.used:b.held])
		a, used, err := b.protocol.Take(b.rx[:b.held])
		b.used = used
		if err != ErrIncomplete {
			return a, err
		}
		b.held = copy(b.rx, b.rx[b.used:b.held])
		b.used = 0
		n, err := b.Port.Read(b.rx[b.held:], deadline)
		if err != nil {
			return Answer{}, err
		}
		b.held += n
		if monotonic.Now() > deadline { // a babbling line must not hold the thread
			return Answer{}, hal.ErrTimeout
		}
	}
}

// check gives what is wrong with the form of an answer.
func check(a Answer, size int) error {
	switch {
	case a.Refused:
		return hal.ErrDevice
	case len(a.Data) < size:
		return hal.ErrShort
	case len(a.Data) > size:
		return hal.ErrProtocol
	}
	return nil
}

// Ask sends a request to one servo and gives the size bytes that it answers. It
// tries twice. It is for opening: nothing is counted.
func (b *Bus) Ask(id byte, request []byte, size int) (data []byte, err error) {
	for range 2 {
		data, err = b.tryToAsk(id, request, size)
		if err == nil || errors.Is(err, hal.ErrBus) {
			return data, err
		}
	}
	return nil, err
}

func (b *Bus) tryToAsk(id byte, request []byte, size int) ([]byte, error) {
	deadline := b.Deadline()
	b.tx = append(b.tx[:0], request...)
	if err := b.send(deadline); err != nil {
		return nil, err
	}
	for {
		a, err := b.receive(deadline)
		if err != nil {
			return nil, err
		}
		if a.ID == id { // else an echo, or an answer that came late
			return append([]byte(nil), a.Data...), check(a, size)
		}
	}
}

// SyncWrite writes size bytes to the registers of the servos in data (ID and
// bytes of each). Nobody answers.
func (b *Bus) SyncWrite(register, size int, data []byte, deadline int64) error {
	b.tx = b.protocol.AppendSyncWrite(b.tx[:0], register, size, data)
	err := b.send(deadline)
	if err != nil {
		b.Faults.Count(err)
	}
	return err
}

// SetAll writes one byte to the same register of every servo.
func (b *Bus) SetAll(register int, value byte) error {
	b.data = b.data[:0]
	for i := range b.members {
		b.data = append(b.data, b.members[i].ID, value)
	}
	return b.SyncWrite(register, 1, b.data, b.Deadline())
}

// Gather reads the same registers of every servo, and asks those once more whose
// answers were missing or bad. at is the time of the first request.
func (b *Bus) Gather(register, size int) (at int64, err error) {
	b.orderAll()
	if err := b.query(register, size); err != nil {
		return 0, err
	}
	at = b.lastSent
	asked := b.keepMissing()
	if asked == 0 {
		return at, nil
	}
	if err := b.query(register, size); err != nil {
		return 0, err
	}
	missing := b.keepMissing()
	b.Faults.Mended += uint64(asked - missing)
	if missing > 0 {
		i := b.order[0]
		return 0, b.errorOf(i, b.members[i].problem)
	}
	return at, nil
}

// GatherOnce is Gather without the second try.
func (b *Bus) GatherOnce(register, size int) error {
	b.orderAll()
	if err := b.query(register, size); err != nil {
		return err
	}
	if b.keepMissing() == 0 {
		return nil
	}
	i := b.order[0]
	return b.errorOf(i, b.members[i].problem)
}

func (b *Bus) orderAll() {
	b.order = b.order[:0]
	for i := range b.members {
		b.order = append(b.order, i)
	}
}

// keepMissing counts the servos of the order that have not answered well, and
// leaves only them in it, the first one last: servos answer in turn, and those
// behind a dead one may have waited for it.
func (b *Bus) keepMissing() int {
	kept := b.order[:0]
	for _, i := range b.order {
		if problem := b.members[i].problem; problem != nil {
			b.Faults.Count(problem)
			kept = append(kept, i)
		}
	}
	if len(kept) > 1 {
		first := kept[0]
		copy(kept, kept[1:])
		kept[len(kept)-1] = first
	}
	b.order = kept
	return len(kept)
}

// query sends one sync read to the servos of the order and takes what comes by
// the deadline. An error is the port's.
func (b *Bus) query(register, size int) error {
	b.data = b.data[:0]
	for _, i := range b.order {
		m := &b.members[i]
		m.problem, m.alert = hal.ErrTimeout, false
		b.data = append(b.data, m.ID)
	}
	b.tx = b.protocol.AppendSyncRead(b.tx[:0], register, size, b.data)
	deadline := b.Deadline()
	err := b.send(deadline)
	for outstanding := len(b.order); outstanding > 0 && err == nil; {
		var a Answer
		a, err = b.receive(deadline)
		switch {
		case err == nil:
			if b.accept(a, size) {
				outstanding--
			}
		case errors.Is(err, hal.ErrTimeout):
			return nil
		case !errors.Is(err, hal.ErrBus):
			b.blame(err)
			err = nil
		}
	}
	if err != nil {
		b.Faults.Count(err)
	}
	return err
}

// accept takes an answer. It says whether it was one that is waited for.
func (b *Bus) accept(a Answer, size int) bool {
	for _, i := range b.order {
		m := &b.members[i]
		if m.ID != a.ID || m.problem == nil {
			continue
		}
		m.problem, m.alert = check(a, size), a.Alert
		copy(m.answer[:], a.Data)
		return true
	}
	return false
}

// blame attributes a damaged answer to the servo whose turn it was.
func (b *Bus) blame(kind error) {
	for _, i := range b.order {
		if m := &b.members[i]; m.problem == hal.ErrTimeout {
			m.problem = kind
			return
		}
	}
}
