package shm

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func twoWay() Layout {
	return Layout{Version: 42, Sections: []Section{
		{Name: "state", Kind: KindMailbox, Size: 4096},
		{Name: "plan", Kind: KindMailbox, Size: 200},
		{Name: "ticks", Kind: KindRing, Size: 1000, Slots: 16},
		{Name: "labels", Kind: KindRing, Size: 64, Slots: 8},
		{Name: "stop", Kind: KindWord},
	}}
}

func heap(t testing.TB, sections ...Section) *Segment {
	t.Helper()
	s, err := New(Layout{Sections: sections})
	fatal.If(t, err)
	return s
}

func mailboxOf(t testing.TB, s *Segment, name string) (*MailboxWriter, *MailboxReader) {
	t.Helper()
	w, err := s.MailboxWriter(name)
	fatal.If(t, err)
	r, err := s.MailboxReader(name)
	fatal.If(t, err)
	return w, r
}

func ringOf(t testing.TB, s *Segment, name string) (*Producer, *Consumer) {
	t.Helper()
	p, err := s.Producer(name)
	fatal.If(t, err)
	c, err := s.Consumer(name)
	fatal.If(t, err)
	return p, c
}

func TestSegment_EachEndIsTakenOnce(t *testing.T) {
	s := heap(t, twoWay().Sections...)
	for range 2 {
		_, w := s.MailboxWriter("state")
		_, r := s.MailboxReader("state")
		_, p := s.Producer("ticks")
		_, c := s.Consumer("ticks")
		for _, err := range []error{w, r, p, c} {
			if err != nil && !errors.Is(err, ErrTaken) {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.Producer("ticks"); !errors.Is(err, ErrTaken) {
		t.Fatalf("error %v, want ErrTaken", err)
	}
	if _, err := s.Consumer("state"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("a mailbox as a ring: error %v, want ErrNotFound", err)
	}
	if _, err := s.Word("nothing"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("error %v, want ErrNotFound", err)
	}
}

func TestSegment_OperationsDoNotAllocate(t *testing.T) {
	s := heap(t, twoWay().Sections...)
	w, r := mailboxOf(t, s, "state")
	p, c := ringOf(t, s, "ticks")
	view, err := NewView[[8]float64]()
	fatal.If(t, err)
	if n := testing.AllocsPerRun(1000, func() {
		view.At(w.Buffer())[3] = 1
		w.Publish()
		buf, _ := r.Read()
		numbers[float32](buf)[5] = 2
		for range 20 {
			if _, ok := p.Reserve(); ok {
				p.Commit()
			}
		}
		for range 17 {
			if _, ok := c.Peek(); ok {
				c.Release()
			}
		}
		_, _ = w.Err(), c.Err()
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func create(t *testing.T, l Layout) *Segment {
	t.Helper()
	s, err := Create(l)
	fatal.If(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// descriptor returns a copy of the segment's descriptor, as in another process.
func descriptor(t *testing.T, s *Segment) *os.File {
	t.Helper()
	fd, err := unix.FcntlInt(s.File().Fd(), unix.F_DUPFD_CLOEXEC, 0)
	fatal.If(t, err)
	f := os.NewFile(uintptr(fd), "inherited")
	t.Cleanup(func() { f.Close() })
	return f
}

func TestOpen_SharesTheMessages(t *testing.T) {
	s := create(t, twoWay())
	other, err := Open(descriptor(t, s), twoWay())
	fatal.If(t, err)
	w, err := s.MailboxWriter("state")
	fatal.If(t, err)
	if _, err := other.MailboxWriter("state"); !errors.Is(err, ErrTaken) {
		t.Fatalf("the other mapping took the same end: %v", err)
	}
	r, err := other.MailboxReader("state")
	fatal.If(t, err)
	copy(w.Buffer(), "hello")
	w.Publish()
	if buf, fresh := r.Read(); !fresh || !bytes.HasPrefix(buf, []byte("hello")) {
		t.Fatalf("read %q, fresh %v", buf, fresh)
	}
	fatal.If(t, other.Close())
}

func TestCreate_SealsTheSize(t *testing.T) {
	f := descriptor(t, create(t, twoWay()))
	for _, size := range []int64{0, 1 << 20} {
		errtest.Is(t, f.Truncate(size), unix.EPERM, "resizing to ", size)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); err == nil {
		t.Error("the other process can seal the memory against writing")
	}
}

func TestSegment_FreezeKeepsThePages(t *testing.T) {
	s := create(t, twoWay())
	other, err := Open(descriptor(t, s), twoWay()) // before, as the other process
	fatal.If(t, err)
	fatal.If(t, s.Freeze())
	fd := int(other.File().Fd())
	const hole = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	errtest.Is(t, unix.Fallocate(fd, hole, 0, 4096), unix.EPERM, "a hole through the descriptor")
	emulated := os.Getenv(execPrefix) != "" // qemu-user ignores the advice
	if err := unix.Madvise(other.mem, unix.MADV_REMOVE); !emulated && !errors.Is(err, unix.EPERM) {
		t.Errorf("a hole through the mapping: error %v, want EPERM", err)
	}
	errtest.Is(t, errtest.Of(unix.Pwrite(fd, []byte{0}, 0)), unix.EPERM, "a write")
	if _, err := unix.Mmap(fd, 0, 4096, unix.PROT_WRITE, unix.MAP_SHARED); !errors.Is(err, unix.EPERM) {
		t.Errorf("another mapping: error %v, want EPERM", err)
	}
	w, err := other.Word("stop")
	fatal.If(t, err)
	w.Store(7) // the mapping stays writable
	if ours, err := s.Word("stop"); err != nil || ours.Load() != 7 {
		t.Errorf("%d, %v", ours.Load(), err)
	}
}

func TestOpen_RefusesEveryOtherLayout(t *testing.T) {
	s := create(t, twoWay())
	changes := map[string]func(*Layout){
		"layout version 0x2a, want 0x2b": func(l *Layout) { l.Version++ },
		"bytes, the layout":              func(l *Layout) { l.Sections = l.Sections[1:] },
		"section 0 is mailbox \"state\"": func(l *Layout) { l.Sections[0].Name = "stale" },
		"(size 200":                      func(l *Layout) { l.Sections[1].Size++ },
		"section 2 is ring \"ticks\"": func(l *Layout) {
			l.Sections[2], l.Sections[3] = l.Sections[3], l.Sections[2]
		},
	}
	for want, change := range changes {
		l := twoWay()
		change(&l)
		_, err := Open(descriptor(t, s), l)
		errtest.Is(t, err, ErrMismatch)
		errtest.Contains(t, err, want)
	}
}

func TestOpen_RefusesEveryDamagedByteOfTheHeader(t *testing.T) {
	s := create(t, twoWay())
	f := descriptor(t, s)
	header := line + entrySize*len(twoWay().Sections)
	used := 32 // of the first line; the rest is reserved
	for i := range header {
		if i >= used && i < line {
			continue
		}
		s.mem[i] ^= 0x10
		if _, err := Open(f, twoWay()); !errors.Is(err, ErrMismatch) {
			t.Fatalf("byte %d: error %v, want ErrMismatch", i, err)
		}
		s.mem[i] ^= 0x10
	}
	other, err := Open(f, twoWay())
	fatal.If(t, err)
	other.Close()
}

func TestOpen_RefusesOtherFiles(t *testing.T) {
	size, err := twoWay().Size()
	fatal.If(t, err)
	plain, err := os.Create(filepath.Join(t.TempDir(), "plain"))
	fatal.If(t, err)
	defer plain.Close()
	unsealed, err := unix.MemfdCreate("unsealed", unix.MFD_ALLOW_SEALING)
	fatal.If(t, err)
	memfd := os.NewFile(uintptr(unsealed), "unsealed")
	defer memfd.Close()
	for _, f := range []*os.File{plain, memfd} {
		errtest.Is(t, errtest.Of(Open(f, twoWay())), ErrMismatch, f.Name(), ", empty")
		fatal.If(t, f.Truncate(int64(size)))
		errtest.Is(t, errtest.Of(Open(f, twoWay())), ErrMismatch, f.Name())
	}
	plain.Close()
	errtest.NotNil(t, errtest.Of(Open(plain, twoWay())), "Open accepts a closed file")
}

// segment in which anything can change at any time.
// hostile runs a script: a byte below 128 is an operation, any other byte is the
// place of an attack with the next byte as its value.
