package shm

import (
	"encoding/binary"
	"sync/atomic"
)

// A ring section: the producer's words, the consumer's, the claims, each on
// its own cache line, then the slots.
const (
	ringHead     = 0 // messages committed
	ringDropped  = 8 // messages that found the ring full
	ringTail     = line
	ringProducer = 2 * line
	ringConsumer = 2*line + 8
	ringSlots    = 3 * line
)

const sequenceSize = 8

// slotStride is the bytes from one slot to the next: the message, which starts
// on a cache line, and at the end the number of the message.
func slotStride(size int) int { return alignUp(size + sequenceSize) }

// ring is what both ends have. Positions only grow; a slot's index is its
// position modulo the number of slots.
type ring struct {
	head, tail, dropped *atomic.Uint64
	slots               []byte
	size, stride        int
	count               uint64 // of slots
	corrupt             CorruptError
}

// Producer is the end of a ring that fills it. It belongs to one goroutine.
type Producer struct {
	ring
	position uint64 // our head; the peer cannot change it
	peerTail uint64 // the consumer's, as last read
	lost     uint64
	reserved bool
}

// Consumer is the end of a ring that empties it. It belongs to one goroutine.
type Consumer struct {
	ring
	position uint64 // our tail; the peer cannot change it
	peerHead uint64 // the producer's, as last read
	sequence uint64 // of the peeked message
	next     uint64 // the number that follows the released ones
	missed   uint64
	peeked   bool
}

// Producer takes the filling end of the ring with the given name.
func (s *Segment) Producer(name string) (*Producer, error) {
	r, err := s.ring(name, ringProducer, "producer")
	if err != nil {
		return nil, err
	}
	return &Producer{ring: r}, nil
}

// Consumer takes the emptying end of the ring with the given name.
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

// slot is the whole slot of a position.
func (r *ring) slot(position uint64) []byte {
	at := int(position&(r.count-1)) * r.stride
	return r.slots[at : at+r.stride : at+r.stride]
}

// Err is nil, or a *CorruptError once the peer has written an impossible
// value. It stays: the segment must be given up.
func (r *ring) Err() error { return r.corrupt.err() }

// Reserve returns the slot for the next message: bytes of the section's Size
// that start on a cache line and hold an older message, not zeros. Until
// Commit it returns the same slot again. When the ring is full it returns
// false and counts a dropped message, whose number the consumer will find
// missing. It also returns false, and counts nothing, once Err is not nil.
func (p *Producer) Reserve() ([]byte, bool) {
	slot, ok := p.TryReserve()
	if !ok && !p.corrupt.bad {
		p.lost++
		p.dropped.Store(p.lost)
	}
	return slot, ok
}

// TryReserve is Reserve for a caller that keeps its message when the ring is
// full: nothing is counted as dropped.
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

// readTail looks how far the consumer is and reports whether there is room.
func (p *Producer) readTail() bool {
	tail := p.tail.Load()
	if p.position-tail > p.count {
		p.corrupt.set("tail", tail, p.position)
		return false
	}
	p.peerTail = tail
	return p.position-tail < p.count
}

// Commit hands the reserved slot to the consumer. It panics without a
// Reserve before it.
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

// Dropped is how many messages found the ring full.
func (p *Producer) Dropped() uint64 { return p.lost }

// Peek returns the oldest message, or false when there is none or once Err is
// not nil. The slot is the consumer's alone until Release; until then Peek
// returns the same one again.
//
// The producer may be a process that is not trusted: copy the values out, then
// check the copies.
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

// readHead looks how far the producer is and reports whether there is a message.
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

// Sequence is the number of the message that Peek last returned: 0, 1, 2, ...
// in the order of the producer's Reserve and Commit, dropped ones included.
func (c *Consumer) Sequence() uint64 { return c.sequence }

// Missed is how many messages were dropped before the one that Peek last
// returned.
func (c *Consumer) Missed() uint64 { return c.missed }

// Dropped is what the producer says it has dropped so far, also after the
// newest message.
func (c *Consumer) Dropped() uint64 { return c.dropped.Load() }

// Release gives the peeked slot back to the producer. It panics without a
// Peek before it.
func (c *Consumer) Release() {
	if !c.peeked {
		panic("shm: Release without Peek")
	}
	c.peeked = false
	c.position++
	c.tail.Store(c.position)
}
