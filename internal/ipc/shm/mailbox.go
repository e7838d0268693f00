package shm

import "sync/atomic"

// A mailbox section: the exchanged word, the claims of its two ends, then three
// buffers, each on separate cache lines.
const (
	mailboxExchange = 0
	mailboxWriter   = line
	mailboxReader   = line + 8
	mailboxBuffers  = 2 * line
)

// The exchanged word is the index of the middle buffer. The fresh bit is set if the
// writer published it after the last Read.
const (
	indexMask      = 3
	freshBit       = 4
	firstWritten   = 0 // the writer's first buffer
	firstExchanged = 1
	firstRead      = 2 // the reader's first buffer
)

// mailbox is the common part of both ends.
type mailbox struct {
	exchanged *atomic.Uint64
	buffers   [3][]byte
	mine      uint64 // index of this end's private buffer
	corrupt   CorruptError
}

// MailboxWriter is the writing end of a mailbox, for one goroutine.
type MailboxWriter struct{ mailbox }

// MailboxReader is the reading end of a mailbox, for one goroutine.
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

// swap exchanges the own buffer for the middle one. ok is false if the peer wrote an
// impossible word; the own buffer then stays.
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

// Err returns a *CorruptError after the peer has written an impossible value. The
// error is permanent: the program must discard the segment.
func (m *mailbox) Err() error { return m.corrupt.err() }

// Buffer returns the buffer for the next message. It has the section's Size, starts
// on a cache line, and contains an older message, not zeros. Until Publish only the
// writer uses it.
func (w *MailboxWriter) Buffer() []byte { return w.buffers[w.mine] }

// Publish makes Buffer the newest message and takes another buffer for the next one.
// It replaces an unread message. If Err is not nil it does nothing.
func (w *MailboxWriter) Publish() {
	if w.corrupt.bad {
		return
	}
	w.swap(freshBit)
}

// Read returns the newest message; fresh is true if Read had not returned it before.
// Until the next Read only the reader uses the buffer. It is nil before the first
// message and if Err is not nil.
//
// The writer may be an untrusted process: copy the values, then check the copies.
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
