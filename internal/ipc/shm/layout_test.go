package shm

import (
	"strings"
	"testing"
	"unsafe"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func TestLayout_BuffersStartOnCacheLinesAndDoNotOverlap(t *testing.T) {
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
		fatal.If(t, err)
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

func TestLayout_RefusesInvalidLayouts(t *testing.T) {
	ok := Section{Name: "ok", Kind: KindWord}
	tests := map[string][]Section{
		"0 sections":    {},
		"1025 sections": make([]Section, 1025),
		"name \"ok\"":   {ok, ok},
		"0 bytes":       {{Name: "m", Kind: KindMailbox}},
		"-1 bytes":      {{Name: "m", Kind: KindMailbox, Size: -1}},
		"beyond": {
			{Name: "a", Kind: KindMailbox, Size: 1 << 30}, {Name: "b", Kind: KindMailbox, Size: 1 << 30},
		},
		"3 slots":        {{Name: "r", Kind: KindRing, Size: 1, Slots: 3}},
		"0 slots":        {{Name: "r", Kind: KindRing, Size: 1}},
		"-8 slots":       {{Name: "r", Kind: KindRing, Size: 1, Slots: -8}},
		"only rings":     {{Name: "m", Kind: KindMailbox, Size: 1, Slots: 2}},
		"has size 8":     {{Name: "w", Kind: KindWord, Size: 8}},
		"unknown kind 9": {{Name: "x", Kind: 9}},
		"has 0 bytes":    {{Name: "", Kind: KindWord}},
		"has 33 bytes":   {{Name: strings.Repeat("x", 33), Kind: KindWord}},
		"has a zero by":  {{Name: "a\x00b", Kind: KindWord}},
	}
	for want, sections := range tests {
		l := Layout{Sections: sections}
		_, err := New(l)
		_, create := Create(l)
		_, size := l.Size()
		for _, err := range []error{err, create, size} {
			errtest.Is(t, err, ErrLayout)
			errtest.Contains(t, err, want)
		}
	}
}
