package shm

import (
	"testing"

	"pgregory.net/rapid"
)

func TestRing_KeepsTheOrderAndCountsDrops(t *testing.T) {
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
					t.Fatalf("reserve returns %v with %d of %d slots taken", ok, len(queue), slots)
				}
				if !ok {
					dropped++
				} else {
					numbers[uint64](slot)[0] = number
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
					t.Fatalf("peek returns %v with %d waiting", ok, len(queue))
				}
				if !ok {
					return
				}
				again, _ := c.Peek()
				if got := numbers[uint64](slot)[0]; got != queue[0] || c.Sequence() != got || &again[0] != &slot[0] {
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

func TestConsumer_CountsMissedMessages(t *testing.T) {
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

func TestRing_CommitAndReleasePanicWithoutASlot(t *testing.T) {
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
