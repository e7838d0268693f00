package shm

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestEndpoints_SurviveAHostilePeer runs random operations against a
func TestEndpoints_SurviveAHostilePeer(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		script := make([]byte, 400)
		for i := range script {
			script[i] = byte(r.Uint32())
		}
		hostile(t, script)
	}
}

func FuzzEndpoints_SurviveAHostilePeer(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x83\x01\x05\x02\x81\x09\xff\x03"))
	f.Add([]byte("\x02\x02\x02\x02\x02\x03\x90\x00\x07\x03\x03\x02\x88\x04\x01\x00\x01"))
	f.Fuzz(func(t *testing.T, script []byte) { hostile(t, script) })
}

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

func TestEndpoints_CloseAfterImpossibleValues(t *testing.T) {
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
	if _, ok := p.Reserve(); ok || p.Err() == nil {
		t.Errorf("producer: %v, error %v", ok, p.Err())
	}
}
