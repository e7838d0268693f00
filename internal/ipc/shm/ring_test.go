package shm

import (
	"testing"

	"pgregory.net/rapid"
)

func TestRing_KeepsTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := 1 << rapid.IntRange(0, 4).Draw(t, "log slots")
		s, err := New(Layout{Sections: []Section{{Name: "r", Kind: KindRing, Size: 8, Slots: slots}}})
		if err != nil {
			t.Fatal(err)
		}
		p, _ := s.Producer("r")
		c, _ := s.Consumer("r")
		var queue []uint64
		var number uint64
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				slot, ok := p.Reserve()
				if ok != (len(queue) < slots) {
					t.Fatalf("reserve returns %v with %d of %d slots taken", ok, len(queue), slots)
				}
				if ok {
					if again, _ := p.Reserve(); len(again) == 0 || &again[0] != &slot[0] {
						t.Fatal("the second Reserve returns another slot")
					}
					numbers[uint64](slot)[0] = number
					p.Commit()
					queue = append(queue, number)
				}
				number++
			},
			"reserve": func(t *rapid.T) {
				if _, ok := p.Reserve(); ok != (len(queue) < slots) {
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
				if got := numbers[uint64](slot)[0]; got != queue[0] || &again[0] != &slot[0] {
					t.Fatalf("message %d, want %d", got, queue[0])
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
