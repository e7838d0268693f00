package shm

import "sync/atomic"

// A mailbox section: the word that is exchanged, the claims of its two ends,
// then three buffers, each on its own cache lines.
const (
	mailboxExchange = 0
	mailboxWriter   = line
	mailboxReader   = line + 8
	mailboxBuffers  = 2 * line
)

// The exchanged word is the index of the buffer in the middle, and whether the
// writer put it there since the reader last looked.
const (
	indexMask      = 3
	freshBit       = 4
	firstWritten   = 0 // the writer's first buffer
	firstExchanged = 1
	firstRead      = 2 // the reader's first buffer
)

// mailbox is what both ends have.
type mailbox struct {
	exchanged *atomic.Uint64
	buffers   [3][]byte
	mine      uint64 // index of the buffer that only this end touches
	corrupt   CorruptError
}

// MailboxWriter is the writing end of a mailbox. It belongs to one goroutine.
type MailboxWriter struct{ mailbox }

// MailboxReader is the reading end of a mailbox. It belongs to one goroutine.
type MailboxReader struct {
	mailbox
	read bool
}

// MailboxWriter takes the writing end of the mailbox with the given name.
func (s *Segment) MailboxWriter(name string) (*MailboxWriter, error) {
	m, err := s.mailbox(name, mailboxWriter, "writer", firstWritten)
	if err != nil {
		return nil, err
	}
	return &MailboxWriter{m}, nil
}

// MailboxReader takes the reading end of the mailbox with the given name.
func (s *Segment) MailboxReader(name string) (*MailboxReader, error) {
	m, err := s.mailbox(name, mailboxReader, "reader", firstRead)
	if err != nil {
		return nil, err
	}
	return &MailboxReader{mailbox: m}, nil
}

func (s *Segment) mailbox(name string, claimAt int, end string, first uint64) (mailbox, error) {
	p, err := s.find(name, KindMailbox)
	if err != nil {
		return mailbox{}, err
	}
	if err := s.claim(p, claimAt, end); err != nil {
		return mailbox{}, err
	}
	m := mailbox{exchanged: word(s.mem, p.offset+mailboxExchange), mine: first, corrupt: CorruptError{Section: name}}
	stride := alignUp(p.Size)
	for i := range m.buffers {
		at := p.offset + mailboxBuffers + i*stride
		m.buffers[i] = s.mem[at : at+p.Size : at+p.Size]
	}
	return m, nil
}

// swap gives the own buffer away for the one in the middle. It reports whether
// the word that the peer left there was possible; if not, the own buffer stays.
func (m *mailbox) swap(flag uint64) (fresh, ok bool) {
	old := m.exchanged.Swap(m.mine | flag)
	index := old & indexMask
	if old&^(indexMask|freshBit) != 0 || index > 2 || index == m.mine {
		m.corrupt.set("exchange word", old, m.mine)
		return false, false
	}
	m.mine = index
	return old&freshBit != 0, true
}

// Err is nil, or a *CorruptError once the peer has written an impossible
// value. It stays: the segment must be given up.
func (m *mailbox) Err() error { return m.corrupt.err() }

// Buffer is where the next message is written: bytes of the section's Size,
// which start on a cache line. It holds an older message, not zeros, and is the
// writer's alone until Publish.
func (w *MailboxWriter) Buffer() []byte { return w.buffers[w.mine] }

// Publish makes Buffer the newest message and takes another buffer for the
// next one. A message that the reader never looked at is replaced. Once Err is
// not nil it does nothing.
func (w *MailboxWriter) Publish() {
	if w.corrupt.bad {
		return
	}
	w.swap(freshBit)
}

// Read returns the newest message, and whether it is one that Read had not
// returned before. The buffer is the reader's alone until the next Read. It is
// nil before the first message and once Err is not nil.
//
// The writer may be a process that is not trusted: copy the values out, then
// check the copies.
func (r *MailboxReader) Read() (buf []byte, fresh bool) {
	if r.corrupt.bad {
		return nil, false
	}
	seen := r.exchanged.Load()
	if seen&freshBit != 0 || seen > indexMask|freshBit {
		if fresh, _ = r.swap(0); r.corrupt.bad {
			return nil, false
		}
	}
	r.read = r.read || fresh
	if !r.read {
		return nil, false
	}
	return r.buffers[r.mine], fresh
}
