package shm

import (
	"encoding/binary"
	"sync/atomic"
)

// A ring section: the words of the producer, those of the consumer, and the claims,
// each on separate cache lines, then the slots.
const (
	ringHead     = 0 // messages committed
	ringDropped  = 8 // messages that found the ring full
	ringTail     = line
	ringProducer = 2 * line
	ringConsumer = 2*line + 8
	ringSlots    = 3 * line
)

const sequenceSize = 8

// slotStride returns the size of a slot in bytes: the message, which starts on a
// cache line, and its number at the end.
func slotStride(size int) int { return alignUp(size + sequenceSize) }

// ring is the common part of both ends. Positions only grow; the index of a slot is
// its position modulo the number of slots.
type ring struct {
	head, tail, dropped *atomic.Uint64
	slots               []byte
	size, stride        int
	count               uint64 // of slots
	corrupt             CorruptError
}

// Producer is the writing end of a ring, for one goroutine.
type Producer struct {
	ring
	position uint64 // the own head; the peer cannot change it
	peerTail uint64 // last reading of the consumer's tail
	lost     uint64
	reserved bool
}

// Consumer is the reading end of a ring, for one goroutine.
type Consumer struct {
	ring
	position uint64 // the own tail; the peer cannot change it
	peerHead uint64 // last reading of the producer's head
	sequence uint64 // of the peeked message
	next     uint64 // the next expected number
	missed   uint64
	peeked   bool
}

// Producer takes the writing end of the ring with the given name.
func (s *Segment) Producer(name string) (*Producer, error) {
	r, err := s.ring(name, ringProducer, "producer")
	if err != nil {
		return nil, err
	}
	return &Producer{ring: r}, nil
}

// Consumer takes the reading end of the ring with the given name.
func (s *Segment) Consumer(name string) (*Consumer, error) {
	r, err := s.ring(name, ringConsumer, "consumer")
	if err != nil {
		return nil, err
	}
	return &Consumer{ring: r}, nil
}

func (s *Segment) ring(name string, claimAt int, end string) (ring, error) {
	p, err := s.find(name, KindRing)
	if err != nil {
		return ring{}, err
	}
	if err := s.claim(p, claimAt, end); err != nil {
		return ring{}, err
	}
	return ring{
		head:    word(s.mem, p.offset+ringHead),
		tail:    word(s.mem, p.offset+ringTail),
		dropped: word(s.mem, p.offset+ringDropped),
		slots:   s.mem[p.offset+ringSlots : p.offset+p.length : p.offset+p.length],
		size:    p.Size,
		stride:  slotStride(p.Size),
		count:   uint64(p.Slots),
		corrupt: CorruptError{Section: name},
	}, nil
}

// slot returns the whole slot of a position.
func (r *ring) slot(position uint64) []byte {
	at := int(position&(r.count-1)) * r.stride
	return r.slots[at : at+r.stride : at+r.stride]
}

// Err returns a *CorruptError after the peer has written an impossible value. The
// error is permanent: the program must discard the segment.
func (r *ring) Err() error { return r.corrupt.err() }

// Reserve returns the slot for the next message. It has the section's Size, starts
// on a cache line, and contains an older message, not zeros. Until Commit, Reserve
// returns the same slot again. If the ring is full it returns false and counts a
// dropped message; the consumer sees its number missing. If Err is not nil it
// returns false and counts nothing.
func (p *Producer) Reserve() ([]byte, bool) {
	slot, ok := p.TryReserve()
	if !ok && !p.corrupt.bad {
		p.lost++
		p.dropped.Store(p.lost)
	}
	return slot, ok
}

// TryReserve is Reserve for a caller that keeps its message if the ring is full: it
// does not count dropped messages.
func (p *Producer) TryReserve() ([]byte, bool) {
	if p.corrupt.bad {
		return nil, false
	}
	if p.position-p.peerTail >= p.count && !p.readTail() {
		return nil, false
	}
	p.reserved = true
	return p.slot(p.position)[:p.size:p.size], true
}

// readTail reads the position of the consumer and reports whether a slot is free.
func (p *Producer) readTail() bool {
	tail := p.tail.Load()
	if p.position-tail > p.count {
		p.corrupt.set("tail", tail, p.position)
		return false
	}
	p.peerTail = tail
	return p.position-tail < p.count
}

// Commit passes the reserved slot to the consumer. It panics without a Reserve.
func (p *Producer) Commit() {
	if !p.reserved {
		panic("shm: Commit without Reserve")
	}
	p.reserved = false
	slot := p.slot(p.position)
	binary.NativeEndian.PutUint64(slot[p.stride-sequenceSize:], p.position+p.lost)
	p.position++
	p.head.Store(p.position)
}

// Dropped returns the number of messages dropped because the ring was full.
func (p *Producer) Dropped() uint64 { return p.lost }

// Peek returns the oldest message, or false if there is none or Err is not nil. Until
// Release only the consumer uses the slot, and Peek returns the same one again.
//
// The producer may be an untrusted process: copy the values, then check the copies.
func (c *Consumer) Peek() ([]byte, bool) {
	if c.corrupt.bad {
		return nil, false
	}
	if c.peerHead == c.position && !c.readHead() {
		return nil, false
	}
	slot := c.slot(c.position)
	if !c.peeked && !c.number(slot) {
		return nil, false
	}
	return slot[:c.size:c.size], true
}

// readHead reads the position of the producer and reports whether a message is there.
func (c *Consumer) readHead() bool {
	head := c.head.Load()
	if head-c.position > c.count {
		c.corrupt.set("head", head, c.position)
		return false
	}
	c.peerHead = head
	return head != c.position
}

// number reads the number of the message in a slot and counts the missing ones.
func (c *Consumer) number(slot []byte) bool {
	sequence := binary.NativeEndian.Uint64(slot[c.stride-sequenceSize:])
	if sequence < c.next {
		c.corrupt.set("message number", sequence, c.next)
		return false
	}
	c.missed += sequence - c.next
	c.sequence, c.next = sequence, sequence+1
	c.peeked = true
	return true
}

// Sequence returns the number of the last message of Peek: 0, 1, 2, ... in the order
// of the producer's Reserve and Commit, including dropped messages.
func (c *Consumer) Sequence() uint64 { return c.sequence }

// Missed returns the number of messages dropped before the last one of Peek.
func (c *Consumer) Missed() uint64 { return c.missed }

// Dropped returns the producer's count of dropped messages, including those after
// the newest message.
func (c *Consumer) Dropped() uint64 { return c.dropped.Load() }

// Release returns the slot of Peek to the producer. It panics without a Peek.
func (c *Consumer) Release() {
	if !c.peeked {
		panic("shm: Release without Peek")
	}
	c.peeked = false
	c.position++
	c.tail.Store(c.position)
}
