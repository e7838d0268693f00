package shm

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
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
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mailboxOf(t testing.TB, s *Segment, name string) (*MailboxWriter, *MailboxReader) {
	t.Helper()
	w, err := s.MailboxWriter(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.MailboxReader(name)
	if err != nil {
		t.Fatal(err)
	}
	return w, r
}

func ringOf(t testing.TB, s *Segment, name string) (*Producer, *Consumer) {
	t.Helper()
	p, err := s.Producer(name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Consumer(name)
	if err != nil {
		t.Fatal(err)
	}
	return p, c
}

func TestAMailboxGivesTheNewestMessageAndSaysWhetherItIsNew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := New(Layout{Sections: []Section{{Name: "m", Kind: KindMailbox, Size: 8}}})
		if err != nil {
			t.Fatal(err)
		}
		w, _ := s.MailboxWriter("m")
		r, _ := s.MailboxReader("m")
		var published, read uint64
		t.Repeat(map[string]func(*rapid.T){
			"publish": func(*rapid.T) {
				published++
				Numbers[uint64](w.Buffer())[0] = published
				w.Publish()
			},
			"scribble": func(*rapid.T) { Numbers[uint64](w.Buffer())[0] = 1 << 60 },
			"read": func(t *rapid.T) {
				buf, fresh := r.Read()
				if fresh != (published > read) {
					t.Fatalf("fresh is %v after %d published and %d read", fresh, published, read)
				}
				if published == 0 {
					if buf != nil {
						t.Fatal("a message that nobody wrote")
					}
					return
				}
				read = published
				if got := Numbers[uint64](buf)[0]; got != published {
					t.Fatalf("read %d, the newest is %d", got, published)
				}
			},
		})
		if w.Err() != nil || r.Err() != nil {
			t.Fatal(w.Err(), r.Err())
		}
	})
}

func TestARingKeepsTheOrderAndCountsWhatItDrops(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := 1 << rapid.IntRange(0, 4).Draw(t, "log slots")
		s, err := New(Layout{Sections: []Section{{Name: "r", Kind: KindRing, Size: 8, Slots: slots}}})
		if err != nil {
			t.Fatal(err)
		}
		p, _ := s.Producer("r")
		c, _ := s.Consumer("r")
		var queue []uint64
		var number, dropped, popped uint64
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				slot, ok := p.Reserve()
				if ok != (len(queue) < slots) {
					t.Fatalf("reserve says %v with %d of %d slots taken", ok, len(queue), slots)
				}
				if !ok {
					dropped++
				} else {
					Numbers[uint64](slot)[0] = number
					p.Commit()
					queue = append(queue, number)
				}
				number++
				if p.Dropped() != dropped || c.Dropped() != dropped {
					t.Fatalf("%d and %d dropped, want %d", p.Dropped(), c.Dropped(), dropped)
				}
			},
			"try": func(t *rapid.T) {
				if _, ok := p.TryReserve(); ok != (len(queue) < slots) {
					t.Fatalf("%v with %d of %d slots taken", ok, len(queue), slots)
				}
			},
			"pop": func(t *rapid.T) {
				slot, ok := c.Peek()
				if ok != (len(queue) > 0) {
					t.Fatalf("peek says %v with %d waiting", ok, len(queue))
				}
				if !ok {
					return
				}
				again, _ := c.Peek()
				if got := Numbers[uint64](slot)[0]; got != queue[0] || c.Sequence() != got || &again[0] != &slot[0] {
					t.Fatalf("message %d with number %d, want %d", got, c.Sequence(), queue[0])
				}
				popped++
				if c.Missed() != queue[0]+1-popped {
					t.Fatalf("%d missed before message %d, of which %d came", c.Missed(), queue[0], popped)
				}
				queue = queue[1:]
				c.Release()
			},
		})
		if p.Err() != nil || c.Err() != nil {
			t.Fatal(p.Err(), c.Err())
		}
	})
}

func TestTheConsumerSeesHowManyMessagesAreMissing(t *testing.T) {
	s := heap(t, Section{Name: "r", Kind: KindRing, Size: 1, Slots: 2})
	p, c := ringOf(t, s, "r")
	push := func(n int) {
		for range n {
			if _, ok := p.Reserve(); ok {
				p.Commit()
			}
		}
	}
	pop := func(sequence, missed uint64) {
		t.Helper()
		if _, ok := c.Peek(); !ok || c.Sequence() != sequence || c.Missed() != missed {
			t.Fatalf("peek %v, number %d, %d missed; want %d and %d", ok, c.Sequence(), c.Missed(), sequence, missed)
		}
		c.Release()
	}
	push(5) // 2, 3 and 4 are dropped
	pop(0, 0)
	push(1) // 5
	pop(1, 0)
	pop(5, 3)
	push(4) // 6 and 7; 8 and 9 are dropped
	pop(6, 3)
	pop(7, 3)
	if c.Dropped() != 5 {
		t.Fatalf("%d dropped, want 5", c.Dropped())
	}
}

func TestBuffersStartOnCacheLinesAndDoNotOverlap(t *testing.T) {
	s := heap(t,
		Section{Name: "m", Kind: KindMailbox, Size: 65},
		Section{Name: "w", Kind: KindWord},
		Section{Name: "r", Kind: KindRing, Size: 60, Slots: 4},
		Section{Name: "v", Kind: KindWord})
	w, r := mailboxOf(t, s, "m")
	p, _ := ringOf(t, s, "r")
	var buffers [][]byte
	buffers = append(buffers, w.buffers[:]...)
	for i := range uint64(4) {
		buffers = append(buffers, p.slot(i))
	}
	for _, name := range []string{"w", "v"} {
		word, err := s.Word(name)
		if err != nil {
			t.Fatal(err)
		}
		buffers = append(buffers, unsafe.Slice((*byte)(unsafe.Pointer(word)), line))
	}
	for i, b := range buffers {
		if uintptr(unsafe.Pointer(&b[0]))%line != 0 {
			t.Errorf("buffer %d starts at %p", i, &b[0])
		}
		for j, other := range buffers[:i] {
			if overlap(b, other) {
				t.Errorf("buffers %d and %d overlap", i, j)
			}
		}
		if !overlap(s.mem, b) {
			t.Errorf("buffer %d lies outside of the segment", i)
		}
	}
	if cap(w.Buffer()) != 65 || r.buffers[0] == nil {
		t.Errorf("a buffer of 65 bytes can grow to %d", cap(w.Buffer()))
	}
}

func overlap(a, b []byte) bool {
	a0, b0 := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return a0 < b0+uintptr(len(b)) && b0 < a0+uintptr(len(a))
}

func TestEachEndIsTakenOnce(t *testing.T) {
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

func TestCommitAndReleaseWithoutASlotPanic(t *testing.T) {
	s := heap(t, twoWay().Sections...)
	p, c := ringOf(t, s, "ticks")
	for name, call := range map[string]func(){"Commit": p.Commit, "Release": c.Release} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			call()
		}()
	}
}

func TestNoOperationAllocates(t *testing.T) {
	s := heap(t, twoWay().Sections...)
	w, r := mailboxOf(t, s, "state")
	p, c := ringOf(t, s, "ticks")
	view, err := NewView[[8]float64]()
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() {
		view.At(w.Buffer())[3] = 1
		w.Publish()
		buf, _ := r.Read()
		Numbers[float32](buf)[5] = 2
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

func TestALayoutThatCannotBeIsRefused(t *testing.T) {
	ok := Section{Name: "ok", Kind: KindWord}
	tests := map[string][]Section{
		"0 sections":      {},
		"1025 sections":   make([]Section, 1025),
		"called \"ok\"":   {ok, ok},
		"0 bytes":         {{Name: "m", Kind: KindMailbox}},
		"-1 bytes":        {{Name: "m", Kind: KindMailbox, Size: -1}},
		"beyond":          {{Name: "a", Kind: KindMailbox, Size: 1 << 30}, {Name: "b", Kind: KindMailbox, Size: 1 << 30}},
		"3 slots":         {{Name: "r", Kind: KindRing, Size: 1, Slots: 3}},
		"0 slots":         {{Name: "r", Kind: KindRing, Size: 1}},
		"-8 slots":        {{Name: "r", Kind: KindRing, Size: 1, Slots: -8}},
		"only rings":      {{Name: "m", Kind: KindMailbox, Size: 1, Slots: 2}},
		"has size 8":      {{Name: "w", Kind: KindWord, Size: 8}},
		"unknown kind 9":  {{Name: "x", Kind: 9}},
		"has 0 bytes":     {{Name: "", Kind: KindWord}},
		"has 33 bytes":    {{Name: strings.Repeat("x", 33), Kind: KindWord}},
		"holds a zero by": {{Name: "a\x00b", Kind: KindWord}},
	}
	for want, sections := range tests {
		l := Layout{Sections: sections}
		_, err := New(l)
		_, create := Create(l)
		_, size := l.Size()
		for _, err := range []error{err, create, size} {
			if !errors.Is(err, ErrLayout) || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want one about %s", err, want)
			}
		}
	}
}

func create(t *testing.T, l Layout) *Segment {
	t.Helper()
	s, err := Create(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// descriptor is a copy of the segment's, as another process has it.
func descriptor(t *testing.T, s *Segment) *os.File {
	t.Helper()
	fd, err := unix.FcntlInt(s.File().Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "inherited")
	t.Cleanup(func() { f.Close() })
	return f
}

func TestASecondMappingSeesTheSameMessages(t *testing.T) {
	s := create(t, twoWay())
	other, err := Open(descriptor(t, s), twoWay())
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.MailboxWriter("state")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.MailboxWriter("state"); !errors.Is(err, ErrTaken) {
		t.Fatalf("the other mapping took the same end: %v", err)
	}
	r, err := other.MailboxReader("state")
	if err != nil {
		t.Fatal(err)
	}
	copy(w.Buffer(), "hello")
	w.Publish()
	if buf, fresh := r.Read(); !fresh || !bytes.HasPrefix(buf, []byte("hello")) {
		t.Fatalf("read %q, fresh %v", buf, fresh)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestASegmentCannotChangeItsSize(t *testing.T) {
	f := descriptor(t, create(t, twoWay()))
	for _, size := range []int64{0, 1 << 20} {
		if err := f.Truncate(size); !errors.Is(err, unix.EPERM) {
			t.Errorf("resizing to %d: error %v, want EPERM", size, err)
		}
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); err == nil {
		t.Error("the other process could seal our memory against writing")
	}
}

func TestOpenRefusesEveryOtherLayout(t *testing.T) {
	s := create(t, twoWay())
	changes := map[string]func(*Layout){
		"layout version 0x2a, this program has 0x2b": func(l *Layout) { l.Version++ },
		"bytes, this program's layout":               func(l *Layout) { l.Sections = l.Sections[1:] },
		"section 0 is mailbox \"state\"":             func(l *Layout) { l.Sections[0].Name = "stale" },
		"(size 200":                                  func(l *Layout) { l.Sections[1].Size++ },
		"section 2 is ring \"ticks\"":                func(l *Layout) { l.Sections[2], l.Sections[3] = l.Sections[3], l.Sections[2] },
	}
	for want, change := range changes {
		l := twoWay()
		change(&l)
		_, err := Open(descriptor(t, s), l)
		if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %s", err, want)
		}
	}
}

func TestOpenRefusesEveryDamagedByteOfTheHeader(t *testing.T) {
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
	if err != nil {
		t.Fatal(err)
	}
	other.Close()
}

func TestOpenRefusesWhatIsNoSegment(t *testing.T) {
	size, err := twoWay().Size()
	if err != nil {
		t.Fatal(err)
	}
	plain, err := os.Create(filepath.Join(t.TempDir(), "plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	unsealed, err := unix.MemfdCreate("unsealed", unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	memfd := os.NewFile(uintptr(unsealed), "unsealed")
	defer memfd.Close()
	for _, f := range []*os.File{plain, memfd} {
		if _, err := Open(f, twoWay()); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s, empty: error %v, want ErrMismatch", f.Name(), err)
		}
		if err := f.Truncate(int64(size)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(f, twoWay()); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: error %v, want ErrMismatch", f.Name(), err)
		}
	}
	plain.Close()
	if _, err := Open(plain, twoWay()); err == nil {
		t.Error("a closed file was opened")
	}
}

func TestOnlyWhatHasNoPointersCanBeViewed(t *testing.T) {
	type good struct {
		A uint64
		B [3]struct{ C, D float32 }
		_ [4]uint8
	}
	if v, err := NewView[good](); err != nil || v.Size() != 40 {
		t.Errorf("size %d, error %v", v.Size(), err)
	}
	refuses := func(err error, path string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v, want one about %s", err, path)
		}
	}
	_, err := NewView[struct{ A struct{ B [2]bool } }]()
	refuses(err, ".A.B[] is a bool")
	_, err = NewView[struct{ P *int64 }]()
	refuses(err, ".P is a *int64")
	_, err = NewView[struct{ N int }]()
	refuses(err, ".N is a int")
	_, err = NewView[struct{ S string }]()
	refuses(err, ".S is a string")
	_, err = NewView[[]float64]()
	refuses(err, "is a []float64")
}

func TestAViewOfBytesThatDoNotFitPanics(t *testing.T) {
	view, err := NewView[uint64]()
	if err != nil {
		t.Fatal(err)
	}
	b := alignedBytes(32)
	for name, call := range map[string]func(){
		"short":             func() { view.At(b[:7]) },
		"empty":             func() { view.At(nil) },
		"unaligned":         func() { view.At(b[4:]) },
		"no view":           func() { new(View[uint64]).At(b) },
		"odd numbers":       func() { Numbers[uint64](b[:12]) },
		"unaligned numbers": func() { Numbers[float32](b[2:10]) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call()
		}()
	}
	if Numbers[float64](nil) != nil {
		t.Error("numbers from nothing")
	}
	*view.At(b[8:]) = 0x0102030405060708
	if got := Numbers[uint64](b[:16]); !reflect.DeepEqual(got, []uint64{0, 0x0102030405060708}) {
		t.Errorf("%x", got)
	}
}

// TestEndpointsSurviveAPeerThatWritesAnything lets random operations meet a
// segment in which anything can change at any time.
func TestEndpointsSurviveAPeerThatWritesAnything(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		script := make([]byte, 400)
		for i := range script {
			script[i] = byte(r.Uint32())
		}
		hostile(t, script)
	}
}

func FuzzEndpointsSurviveAPeerThatWritesAnything(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x83\x01\x05\x02\x81\x09\xff\x03"))
	f.Add([]byte("\x02\x02\x02\x02\x02\x03\x90\x00\x07\x03\x03\x02\x88\x04\x01\x00\x01"))
	f.Fuzz(func(t *testing.T, script []byte) { hostile(t, script) })
}

// hostile runs a script: a byte below 128 is an operation, another one is the
// place of an attack whose value the next byte tells.
func hostile(t *testing.T, script []byte) {
	s := heap(t,
		Section{Name: "m", Kind: KindMailbox, Size: 24},
		Section{Name: "r", Kind: KindRing, Size: 24, Slots: 4})
	w, r := mailboxOf(t, s, "m")
	p, c := ringOf(t, s, "r")
	values := []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 1 << 31, 1 << 32, 1 << 63, ^uint64(0), ^uint64(0) - 3}
	check := func(b []byte) {
		if len(b) != 24 || !overlap(s.mem, b) {
			t.Fatalf("%d bytes at %p", len(b), &b[0])
		}
		b[0], b[23] = 1, 2
	}
	for i := 0; i < len(script); i++ {
		op := script[i]
		if op >= 128 && i+1 < len(script) {
			at := (int(op&127) * 8) % len(s.mem)
			i++
			word(s.mem, at).Store(values[int(script[i])%len(values)])
			continue
		}
		switch op % 6 {
		case 0:
			check(w.Buffer())
			w.Publish()
		case 1:
			if b, _ := r.Read(); b != nil {
				check(b)
			}
		case 2, 3:
			if b, ok := p.Reserve(); ok {
				check(b)
				p.Commit()
			}
		case 4, 5:
			if b, ok := c.Peek(); ok {
				check(b)
				c.Release()
			}
		}
	}
	for _, err := range []error{w.Err(), r.Err(), p.Err(), c.Err()} {
		var corrupt *CorruptError
		if err != nil && (!errors.As(err, &corrupt) || corrupt.Section == "" || corrupt.Field == "") {
			t.Fatalf("error %v, want a *CorruptError", err)
		}
	}
}

func TestImpossibleValuesCloseTheEndpointThatReadsThem(t *testing.T) {
	layout := []Section{{Name: "m", Kind: KindMailbox, Size: 8}, {Name: "r", Kind: KindRing, Size: 8, Slots: 4}}
	at := func(s *Segment, name string, offset int) { word(s.mem, s.places[name].offset+offset).Store(1<<40 + 7) }

	s := heap(t, layout...)
	w, r := mailboxOf(t, s, "m")
	w.Publish()
	at(s, "m", mailboxExchange)
	if b, fresh := r.Read(); b != nil || fresh || r.Err() == nil {
		t.Errorf("read %v, fresh %v, error %v", b, fresh, r.Err())
	}
	at(s, "m", mailboxExchange)
	w.Publish()
	if w.Err() == nil || !strings.Contains(w.Err().Error(), `"m"`) {
		t.Errorf("writer: error %v", w.Err())
	}

	p, c := ringOf(t, s, "r")
	at(s, "r", ringHead)
	if _, ok := c.Peek(); ok || c.Err() == nil {
		t.Errorf("consumer: %v, error %v", ok, c.Err())
	}
	for range 4 {
		p.Reserve()
		p.Commit()
	}
	at(s, "r", ringTail)
	if _, ok := p.Reserve(); ok || p.Err() == nil || p.Dropped() != 0 {
		t.Errorf("producer: %v, error %v, %d dropped", ok, p.Err(), p.Dropped())
	}

	s = heap(t, layout...)
	p, c = ringOf(t, s, "r")
	for range 2 {
		p.Reserve()
		p.Commit()
		c.Peek()
		c.Release()
	}
	p.Reserve()
	p.Commit()
	word(s.mem, s.places["r"].offset+ringSlots+3*slotStride(8)-sequenceSize).Store(1)
	if _, ok := c.Peek(); ok || c.Err() == nil {
		t.Errorf("a number that went back: %v, error %v", ok, c.Err())
	}
}

func BenchmarkMailbox(b *testing.B) {
	w, r := mailboxOf(b, heap(b, twoWay().Sections...), "state")
	b.ReportAllocs()
	for b.Loop() {
		w.Publish()
		r.Read()
	}
}

func BenchmarkRing(b *testing.B) {
	p, c := ringOf(b, heap(b, twoWay().Sections...), "ticks")
	b.ReportAllocs()
	for b.Loop() {
		p.Reserve()
		p.Commit()
		c.Peek()
		c.Release()
	}
}
