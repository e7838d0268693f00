package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Kind says how the two sides use a section.
type Kind uint32

// The kinds of a section.
const (
	KindMailbox Kind = iota + 1 // newest wins: one writer, one reader
	KindRing                    // in order: one producer, one consumer
	KindWord                    // one atomic uint64
)

func (k Kind) String() string {
	switch k {
	case KindMailbox:
		return "mailbox"
	case KindRing:
		return "ring"
	case KindWord:
		return "word"
	}
	return fmt.Sprintf("kind %d", uint32(k))
}

// Section is one named channel of a segment.
type Section struct {
	Name  string // unique; 1 to 32 bytes
	Kind  Kind
	Size  int // bytes of one message of a mailbox or ring, 1 or more; 0 for a word
	Slots int // messages that a ring holds, a power of two; 0 for the others
}

// Layout describes a segment. Both sides state it; Open compares.
type Layout struct {
	// Version identifies what the caller puts into the messages: a number
	// that is raised, or a hash of the types, whenever their layout changes.
	Version  uint64
	Sections []Section // 1 to 1024
}

// Limits of a layout. They keep all sums far from the range of an int.
const (
	maxSections = 1024
	maxName     = 32
	maxSize     = 1 << 30 // bytes of a message
	maxSlots    = 1 << 24 // of a ring
	maxTotal    = 1 << 32 // bytes of a segment
)

// The header: 64 bytes, then one entry of 64 bytes a section, all little
// endian.
const (
	line          = 64 // bytes of a cache line; everything starts on one
	formatVersion = 1
	entrySize     = 64
	magic         = "OPTIBSHM"

	offFormat   = 8  // uint32
	offSections = 12 // uint32
	offVersion  = 16 // uint64, Layout.Version
	offTotal    = 24 // uint64, bytes

	entryKind   = 32 // uint32, after the name
	entrySlots  = 36 // uint32
	entrySize64 = 40 // uint64, Section.Size
	entryOffset = 48 // uint64, where the section starts
	entryLength = 56 // uint64, its bytes
)

// Errors that a caller may want to tell apart.
var (
	// ErrLayout: a Layout that cannot be laid out.
	ErrLayout = errors.New("bad layout")
	// ErrMismatch: the segment is not the one that the caller's Layout describes.
	ErrMismatch = errors.New("segment does not match")
	// ErrNotFound: no section of that name and kind.
	ErrNotFound = errors.New("no such section")
	// ErrTaken: another endpoint has this end of the section.
	ErrTaken = errors.New("already taken")
)

// place is where a section lies in the segment.
type place struct {
	Section
	offset, length int
}

// Size returns the bytes of a segment with this layout.
func (l Layout) Size() (int, error) {
	_, total, err := l.places()
	return total, err
}

// places validates the layout and puts every section on its own cache lines.
func (l Layout) places() ([]place, int, error) {
	if n := len(l.Sections); n == 0 || n > maxSections {
		return nil, 0, fmt.Errorf("shm: %w: %d sections: give 1 to %d", ErrLayout, n, maxSections)
	}
	seen := make(map[string]bool, len(l.Sections))
	places := make([]place, len(l.Sections))
	offset := line + entrySize*len(l.Sections)
	for i, s := range l.Sections {
		if err := s.validate(); err != nil {
			return nil, 0, err
		}
		if seen[s.Name] {
			return nil, 0, fmt.Errorf("shm: %w: two sections are called %q: give each its own name", ErrLayout, s.Name)
		}
		seen[s.Name] = true
		length := s.length()
		if length > maxTotal-offset {
			return nil, 0, fmt.Errorf("shm: %w: section %q ends beyond %d bytes: make messages or rings smaller", ErrLayout, s.Name, maxTotal)
		}
		places[i] = place{Section: s, offset: offset, length: length}
		offset += length
	}
	return places, offset, nil
}

func (s Section) validate() error {
	if len(s.Name) == 0 || len(s.Name) > maxName {
		return fmt.Errorf("shm: %w: section name %q has %d bytes: give it 1 to %d", ErrLayout, s.Name, len(s.Name), maxName)
	}
	for i := range len(s.Name) {
		if s.Name[i] == 0 {
			return fmt.Errorf("shm: %w: section name %q holds a zero byte: use letters", ErrLayout, s.Name)
		}
	}
	switch s.Kind {
	case KindMailbox, KindRing:
		if s.Size < 1 || s.Size > maxSize {
			return fmt.Errorf("shm: %w: messages of %v %q have %d bytes: give 1 to %d", ErrLayout, s.Kind, s.Name, s.Size, maxSize)
		}
	case KindWord:
		if s.Size != 0 {
			return fmt.Errorf("shm: %w: word %q has size %d: leave it 0, a word is always 8 bytes", ErrLayout, s.Name, s.Size)
		}
	default:
		return fmt.Errorf("shm: %w: section %q has unknown %v: use KindMailbox, KindRing or KindWord", ErrLayout, s.Name, s.Kind)
	}
	if s.Kind != KindRing {
		if s.Slots != 0 {
			return fmt.Errorf("shm: %w: %v %q has %d slots: leave it 0, only rings have slots", ErrLayout, s.Kind, s.Name, s.Slots)
		}
		return nil
	}
	if s.Slots < 1 || s.Slots > maxSlots || s.Slots&(s.Slots-1) != 0 {
		return fmt.Errorf("shm: %w: ring %q has %d slots: give a power of two up to %d", ErrLayout, s.Name, s.Slots, maxSlots)
	}
	return nil
}

// length is the bytes that a valid section takes.
func (s Section) length() int {
	switch s.Kind {
	case KindMailbox:
		return mailboxBuffers + 3*alignUp(s.Size)
	case KindRing:
		return ringSlots + s.Slots*slotStride(s.Size)
	}
	return line
}

func alignUp(n int) int { return (n + line - 1) &^ (line - 1) }

// header writes the header that a segment of this layout starts with.
func (l Layout) header(places []place, total int) []byte {
	h := make([]byte, line+entrySize*len(places))
	le := binary.LittleEndian
	copy(h, magic)
	le.PutUint32(h[offFormat:], formatVersion)
	le.PutUint32(h[offSections:], uint32(len(places)))
	le.PutUint64(h[offVersion:], l.Version)
	le.PutUint64(h[offTotal:], uint64(total))
	for i, p := range places {
		e := h[line+i*entrySize:][:entrySize]
		copy(e, p.Name)
		le.PutUint32(e[entryKind:], uint32(p.Kind))
		le.PutUint32(e[entrySlots:], uint32(p.Slots))
		le.PutUint64(e[entrySize64:], uint64(p.Size))
		le.PutUint64(e[entryOffset:], uint64(p.offset))
		le.PutUint64(e[entryLength:], uint64(p.length))
	}
	return h
}

// check compares the header of a segment with the one that this layout gives.
// Nothing of what it reads is used afterwards: places come from the layout.
func (l Layout) check(mem []byte, places []place, total int) error {
	want := l.header(places, total)
	if len(mem) < line {
		return fmt.Errorf("shm: %w: it has %d bytes, fewer than a header: pass the descriptor that Create made", ErrMismatch, len(mem))
	}
	le := binary.LittleEndian
	if got := string(mem[:len(magic)]); got != magic {
		return fmt.Errorf("shm: %w: it starts with %q instead of %q: pass the descriptor that Create made", ErrMismatch, got, magic)
	}
	if got := le.Uint32(mem[offFormat:]); got != formatVersion {
		return fmt.Errorf("shm: %w: format version %d, this program has %d: start both processes from one program", ErrMismatch, got, formatVersion)
	}
	if got := le.Uint64(mem[offVersion:]); got != l.Version {
		return fmt.Errorf("shm: %w: layout version %#x, this program has %#x: start both processes from one program and configuration", ErrMismatch, got, l.Version)
	}
	if got := le.Uint32(mem[offSections:]); got != uint32(len(places)) {
		return fmt.Errorf("shm: %w: %d sections, this program has %d: start both processes from one program and configuration", ErrMismatch, got, len(places))
	}
	if got := le.Uint64(mem[offTotal:]); got != uint64(total) || len(mem) != total {
		return fmt.Errorf("shm: %w: %d bytes by its header, %d by its file, %d by this program: start both processes from one program and configuration", ErrMismatch, got, len(mem), total)
	}
	for i := range places {
		at := line + i*entrySize
		if string(mem[at:at+entrySize]) != string(want[at:at+entrySize]) {
			return fmt.Errorf("shm: %w: section %d is %s, this program has %s: start both processes from one program and configuration",
				ErrMismatch, i, describeEntry(mem[at:at+entrySize]), describeEntry(want[at:at+entrySize]))
		}
	}
	return nil
}

func describeEntry(e []byte) string {
	le := binary.LittleEndian
	name := e[:maxName]
	for i, c := range name {
		if c == 0 {
			name = name[:i]
			break
		}
	}
	return fmt.Sprintf("%v %q (size %d, slots %d, at %d, %d bytes)", Kind(le.Uint32(e[entryKind:])), name,
		le.Uint64(e[entrySize64:]), le.Uint32(e[entrySlots:]), le.Uint64(e[entryOffset:]), le.Uint64(e[entryLength:]))
}

// A segment may be larger than 2 GiB: ints must have 64 bits.
const _ = uint(math.MaxInt) - (1<<62 - 1)
