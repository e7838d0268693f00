package shm

import "sync/atomic"

// A ring section: the words of the producer, those of the consumer, and the claims,
// each on separate cache lines, then the slots.
const (
	ringHead     = 0 // messages committed
	ringTail     = line
	ringProducer = 2 * line
	ringConsumer = 2*line + 8
	ringSlots    = 3 * line
)

// ring is the common part of both ends. Positions only grow; the index of a slot is
// its position modulo the number of slots.
type ring struct {
	head, tail   *atomic.Uint64
	slots        []byte
	size, stride int
	count        uint64 // of slots
	corrupt      CorruptError
}

// Producer is the writing end of a ring, for one goroutine.
type Producer struct {
	ring
	position uint64 // the own head; the peer cannot change it
	peerTail uint64 // last reading of the consumer's tail
	reserved bool
}

// Consumer is the reading end of a ring, for one goroutine.
type Consumer struct {
	ring
	position uint64 // the own tail; the peer cannot change it
	peerHead uint64 // last reading of the producer's head
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
		slots:   s.mem[p.offset+ringSlots : p.offset+p.length : p.offset+p.length],
		size:    p.Size,
		stride:  alignUp(p.Size),
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
// returns the same slot again. It returns false if the ring is full or Err is not nil.
func (p *Producer) Reserve() ([]byte, bool) {
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
	p.position++
	p.head.Store(p.position)
}

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
	c.peeked = true
	return c.slot(c.position)[:c.size:c.size], true
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

// Release returns the slot of Peek to the producer. It panics without a Peek.
func (c *Consumer) Release() {
	if !c.peeked {
		panic("shm: Release without Peek")
	}
	c.peeked = false
	c.position++
	c.tail.Store(c.position)
}
