package shm

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Segment is a memory region with a Layout. The methods that return endpoints are
// for the start of a program, not for the control tick. Any goroutine may call
// them.
type Segment struct {
	mem    []byte
	file   *os.File // nil for heap memory
	places map[string]place
}

// New creates a segment in the memory of this process, for lockstep and tests.
func New(l Layout) (*Segment, error) {
	places, total, err := l.places()
	if err != nil {
		return nil, err
	}
	return newSegment(l, alignedBytes(total), nil, places, total), nil
}

// Create creates a segment in a memfd with a sealed size, and maps it. File returns
// the descriptor for the other process.
func Create(l Layout) (*Segment, error) {
	file, err := NewFile()
	if err != nil {
		return nil, err
	}
	s, err := CreateIn(file, l)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return s, nil
}

// CreateIn is Create in a file of NewFile, whose ownership it takes if it succeeds.
// The other process may have inherited the empty file.
func CreateIn(file *os.File, l Layout) (*Segment, error) {
	places, total, err := l.places()
	if err != nil {
		return nil, err
	}
	if err := setSize(file, total); err != nil {
		return nil, err
	}
	mem, err := mapShared(file, total)
	if err != nil {
		return nil, err
	}
	return newSegment(l, mem, file, places, total), nil
}

func newSegment(l Layout, mem []byte, file *os.File, places []place, total int) *Segment {
	for _, p := range places {
		if p.Kind == KindMailbox {
			word(mem, p.offset+mailboxExchange).Store(firstExchanged)
		}
	}
	copy(mem, l.header(places, total))
	return &Segment{mem: mem, file: file, places: byName(places)}
}

// Open maps the segment of an inherited descriptor and takes the ownership of the
// descriptor. It compares the segment with the caller's layout: magic, versions,
// sizes, every entry of the table, and the seals of its size.
func Open(file *os.File, l Layout) (*Segment, error) {
	places, total, err := l.places()
	if err != nil {
		return nil, err
	}
	if err := checkSealed(file, total); err != nil {
		return nil, err
	}
	mem, err := mapShared(file, total)
	if err != nil {
		return nil, err
	}
	if err := l.check(mem, places, total); err != nil {
		return nil, errors.Join(err, unix.Munmap(mem))
	}
	return &Segment{mem: mem, file: file, places: byName(places)}, nil
}

// File returns the descriptor of a segment of Create or Open, for
// exec.Cmd.ExtraFiles; nil for heap memory. The segment keeps its ownership.
func (s *Segment) File() *os.File { return s.file }

// Freeze forbids to map or write the segment again through its descriptor. Both
// processes keep their mappings. Call it when the other process has mapped the
// segment: it could otherwise remove pages (fallocate(2), madvise(2)), and a page
// fault of this process waits while another one removes pages. Linux before 5.1
// lacks this protection.
func (s *Segment) Freeze() error {
	fd := int(s.file.Fd())
	_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE|unix.F_SEAL_SEAL)
	if errors.Is(err, unix.EINVAL) {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SEAL)
	}
	if err != nil {
		return fmt.Errorf("shm: freeze the segment: %w; start both processes from one program", err)
	}
	return nil
}

// Close unmaps the segment and closes its descriptor. Call it after the last use of
// every endpoint and buffer: an access to unmapped memory ends the process. Heap
// segments need no Close.
func (s *Segment) Close() error {
	if s.file == nil {
		return nil
	}
	if err := unix.Munmap(s.mem); err != nil {
		return fmt.Errorf("shm: unmap: %w", err)
	}
	s.mem, s.places = nil, nil
	return s.file.Close()
}

// find returns the place of a section.
func (s *Segment) find(name string, kind Kind) (place, error) {
	p, ok := s.places[name]
	if !ok || p.Kind != kind {
		return place{}, fmt.Errorf("shm: %w: %v %q; use a section of the layout", ErrNotFound, kind, name)
	}
	return p, nil
}

// claim takes one end of a section permanently. An endpoint has a part of the
// protocol's state in private memory: a second endpoint on the same end, also after
// a crash, could not recover it.
func (s *Segment) claim(p place, offset int, end string) error {
	if !word(s.mem, p.offset+offset).CompareAndSwap(0, 1) {
		return fmt.Errorf("shm: the %s of %q: %w; create a new segment for a restarted process", end, p.Name, ErrTaken)
	}
	return nil
}

func byName(places []place) map[string]place {
	m := make(map[string]place, len(places))
	for _, p := range places {
		m[p.Name] = p
	}
	return m
}

// word returns the atomic cell at an offset, a multiple of 8, of an aligned region.
func word(mem []byte, offset int) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(&mem[offset : offset+8][0]))
}

// alignedBytes returns n zero bytes that start on a cache line.
func alignedBytes(n int) []byte {
	b := make([]byte, n+line)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & (line - 1)
	return b[skip : skip+n : skip+n]
}

const sizeSeals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW

// NewFile returns an empty memfd for CreateIn.
func NewFile() (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("optibfm", flags|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("optibfm", flags)
	}
	if err != nil {
		return nil, fmt.Errorf("shm: memfd_create: %w; use Linux 3.17 or newer with CONFIG_MEMFD_CREATE", err)
	}
	return os.NewFile(uintptr(fd), "memfd:optibfm"), nil
}

// setSize gives a memfd its size. It is sealed so that the other process cannot
// shrink it under our mapping, which would be a SIGBUS.
func setSize(file *os.File, size int) error {
	fd := int(file.Fd())
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return fmt.Errorf("shm: size the segment to %d bytes: %w; free memory or use smaller rings", size, err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, sizeSeals); err != nil {
		return fmt.Errorf("shm: seal the segment: %w", err)
	}
	return nil
}

func checkSealed(file *os.File, size int) error {
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("shm: %w; pass the descriptor of Create", err)
	}
	if info.Size() != int64(size) {
		return fmt.Errorf("shm: %w: the file has %d bytes, the layout %d; "+
			"start both processes from one program and configuration", ErrMismatch, info.Size(), size)
	}
	seals, err := unix.FcntlInt(file.Fd(), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("shm: %w: no seals (%w); pass the descriptor of Create", ErrMismatch, err)
	}
	if seals&sizeSeals != sizeSeals {
		return fmt.Errorf("shm: %w: the size is not sealed (seals %#x); pass the descriptor of Create",
			ErrMismatch, seals)
	}
	return nil
}

// mapShared maps and loads the whole segment, so that a control tick has no page
// faults.
func mapShared(file *os.File, size int) ([]byte, error) {
	mem, err := unix.Mmap(int(file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("shm: map %d bytes: %w; free memory or raise the limit of locked memory (ulimit -l)",
			size, err)
	}
	return mem, nil
}
