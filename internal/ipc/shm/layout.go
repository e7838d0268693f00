package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Kind is the type of a section.
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

// Section is a named channel of a segment.
type Section struct {
	Name  string // unique; 1 to 32 bytes
	Kind  Kind
	Size  int // bytes of one message of a mailbox or ring, 1 or more; 0 for a word
	Slots int // capacity of a ring in messages, a power of two; otherwise 0
}

// Layout describes a segment. Both sides must have the same; Open compares them.
type Layout struct {
	// Version identifies the layout of the messages: a number that the caller
	// increments at each change, or a hash of the types.
	Version  uint64
	Sections []Section // 1 to 1024
}

// Limits of a layout. Sums of them are far below the range of an int.
const (
	maxSections = 1024
	maxName     = 32
	maxSize     = 1 << 30 // bytes of a message
	maxSlots    = 1 << 24 // of a ring
	maxTotal    = 1 << 32 // bytes of a segment
)

// The header: 64 bytes, then one entry of 64 bytes for each section, all
// little-endian.
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
	entryLength = 56 // uint64, bytes of the section
)

// Errors of this package.
var (
	// ErrLayout: an invalid Layout.
	ErrLayout = errors.New("bad layout")
	// ErrMismatch: the segment does not have the caller's Layout.
	ErrMismatch = errors.New("segment does not match")
	// ErrNotFound: unknown name and kind of a section.
	ErrNotFound = errors.New("section not found")
	// ErrTaken: this end of the section was taken before.
	ErrTaken = errors.New("already taken")
)

// place is the position of a section in the segment.
type place struct {
	Section
	offset, length int
}

// Size returns the size in bytes of a segment with this layout.
func (l Layout) Size() (int, error) {
	_, total, err := l.places()
	return total, err
}

// places validates the layout and assigns separate cache lines to every section.
func (l Layout) places() ([]place, int, error) {
	if n := len(l.Sections); n == 0 || n > maxSections {
		return nil, 0, fmt.Errorf("shm: %w: %d sections; give 1 to %d", ErrLayout, n, maxSections)
	}
	seen := make(map[string]bool, len(l.Sections))
	places := make([]place, len(l.Sections))
	offset := line + entrySize*len(l.Sections)
	for i, s := range l.Sections {
		if err := s.validate(); err != nil {
			return nil, 0, err
		}
		if seen[s.Name] {
			return nil, 0, fmt.Errorf("shm: %w: two sections with the name %q", ErrLayout, s.Name)
		}
		seen[s.Name] = true
		length := s.length()
		if length > maxTotal-offset {
			return nil, 0, fmt.Errorf("shm: %w: section %q ends beyond %d bytes; use smaller messages or rings",
				ErrLayout, s.Name, maxTotal)
		}
		places[i] = place{Section: s, offset: offset, length: length}
		offset += length
	}
	return places, offset, nil
}

func (s Section) validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("shm: %w: "+format, append([]any{ErrLayout}, args...)...)
	}
	if len(s.Name) == 0 || len(s.Name) > maxName {
		return bad("section name %q has %d bytes; give 1 to %d", s.Name, len(s.Name), maxName)
	}
	for i := range len(s.Name) {
		if s.Name[i] == 0 {
			return bad("section name %q has a zero byte; use letters", s.Name)
		}
	}
	switch s.Kind {
	case KindMailbox, KindRing:
		if s.Size < 1 || s.Size > maxSize {
			return bad("messages of %v %q have %d bytes; give 1 to %d", s.Kind, s.Name, s.Size, maxSize)
		}
	case KindWord:
		if s.Size != 0 {
			return bad("word %q has size %d; leave it 0, a word always has 8 bytes", s.Name, s.Size)
		}
	default:
		return bad("section %q has unknown %v; use KindMailbox, KindRing or KindWord", s.Name, s.Kind)
	}
	if s.Kind != KindRing {
		if s.Slots != 0 {
			return bad("%v %q has %d slots; leave it 0, only rings have slots", s.Kind, s.Name, s.Slots)
		}
		return nil
	}
	if s.Slots < 1 || s.Slots > maxSlots || s.Slots&(s.Slots-1) != 0 {
		return bad("ring %q has %d slots; give a power of two up to %d", s.Name, s.Slots, maxSlots)
	}
	return nil
}

// length returns the size in bytes of a valid section.
func (s Section) length() int {
	switch s.Kind {
	case KindMailbox:
		return mailboxBuffers + 3*alignUp(s.Size)
	case KindRing:
		return ringSlots + s.Slots*alignUp(s.Size)
	}
	return line
}

func alignUp(n int) int { return (n + line - 1) &^ (line - 1) }

// header returns the header of a segment with this layout.
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

// check compares the header of a segment with the header of this layout. It only
// compares: the places come from the layout, not from the segment.
func (l Layout) check(mem []byte, places []place, total int) error {
	mismatch := func(format string, args ...any) error {
		return fmt.Errorf("shm: %w: "+format, append([]any{ErrMismatch}, args...)...)
	}
	const sameProgram = "start both processes from one program and configuration"
	want := l.header(places, total)
	if len(mem) < line {
		return mismatch("%d bytes are less than a header; pass the descriptor of Create", len(mem))
	}
	le := binary.LittleEndian
	if got := string(mem[:len(magic)]); got != magic {
		return mismatch("it starts with %q instead of %q; pass the descriptor of Create", got, magic)
	}
	if got := le.Uint32(mem[offFormat:]); got != formatVersion {
		return mismatch("format version %d, want %d; %s", got, formatVersion, sameProgram)
	}
	if got := le.Uint64(mem[offVersion:]); got != l.Version {
		return mismatch("layout version %#x, want %#x; %s", got, l.Version, sameProgram)
	}
	if got := le.Uint32(mem[offSections:]); got != uint32(len(places)) {
		return mismatch("%d sections, want %d; %s", got, len(places), sameProgram)
	}
	if got := le.Uint64(mem[offTotal:]); got != uint64(total) || len(mem) != total {
		return mismatch("%d bytes in the header, %d in the file, want %d; %s", got, len(mem), total, sameProgram)
	}
	for i := range places {
		at := line + i*entrySize
		if string(mem[at:at+entrySize]) != string(want[at:at+entrySize]) {
			return mismatch("section %d is %s, want %s; %s",
				i, describeEntry(mem[at:at+entrySize]), describeEntry(want[at:at+entrySize]), sameProgram)
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

// A segment may exceed 2 GiB: an int must have 64 bits.
const _ = uint(math.MaxInt) - (1<<62 - 1)
