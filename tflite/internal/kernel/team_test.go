package kernel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// teamCase is a product that a team divides.
type teamCase struct {
	rows, in, out int
	half, sparse  bool
}

func teamCases() (cases []teamCase) {
	for _, half := range []bool{false, true} {
		for _, sparse := range []bool{false, true} {
			cases = append(cases,
				teamCase{1, 300, 530, half, sparse}, teamCase{6, 300, 300, half, sparse},
				teamCase{13, 600, 75, half, sparse}, teamCase{50, 257, 129, half, sparse})
		}
	}
	return cases
}

// run multiplies with a team and returns the bits of the result and the counts.
func (c teamCase) run(team *Team) (result []uint32, counts [2]int) {
	rng := rand.New(rand.NewPCG(4, uint64(c.rows)))
	pack := Pack
	if c.half {
		pack = PackHalf
	}
	m := pack(weightsOf(rng, c.out, c.in), c.out, c.in, c.in)
	x, y := activations(rng, c.rows, c.in, zeros), NewRows(c.rows, c.out)
	start := Repeated(Aligned(c.out))
	for range 5 { // the parts of consecutive products must not mix
		counts[0], counts[1] = m.Multiply(y, x, start, c.rows, true, c.sparse, NewScratch(c.rows, c.in, team))
		for r := range c.rows {
			result = append(result, bits(y.Row(r, c.out))...)
		}
		x.Data[0]++
	}
	return result, counts
}

// newTestTeam returns a team that divides every product.
func newTestTeam(workers int) *Team {
	team := NewTeam(workers)
	team.least = 0
	return team
}

func TestTeam_GivesTheSameBitsAsTheCallerAlone(t *testing.T) {
	for _, workers := range []int{2, 3, 5} {
		team := newTestTeam(workers)
		defer team.Close()
		for _, c := range teamCases() {
			want, wantCounts := c.run(nil)
			got, counts := c.run(team)
			if fmt.Sprint(got) != fmt.Sprint(want) || counts != wantCounts {
				t.Errorf("%d workers, %+v: other bits or counts (%v, want %v)", workers, c, counts, wantCounts)
			}
		}
	}
}

// squared squares the elements of rows.
type squared struct {
	x     Rows
	width int
}

func (s *squared) Rows(from, to int) {
	for i := from; i < to; i++ {
		for k, v := range s.x.Row(i, s.width) {
			s.x.Row(i, s.width)[k] = v * v
		}
	}
}

func TestEach_DoesEachRowOnce(t *testing.T) {
	for _, workers := range []int{1, 2, 5} {
		team := NewTeam(workers)
		if team != nil {
			team.least = 0
		}
		defer team.Close()
		for _, n := range []int{1, 3, 100} {
			x := NewRows(n, 20)
			for i := range x.Data {
				x.Data[i] = float32(i)
			}
			NewScratch(n, 20, team).Each(&squared{x, 20}, n, 20)
			for i := range n {
				for k, v := range x.Row(i, 20) {
					if was := float32(i*x.Stride + k); v != was*was {
						t.Fatalf("%d workers, %d rows: row %d is %g after %g", workers, n, i, v, was)
					}
				}
			}
		}
	}
}

func TestTeam_TakesEachPartOnce(t *testing.T) {
	const workers, parts = 4, 1000
	team := NewTeam(workers)
	team.parts.Store(7<<32 | parts<<16)
	var taken [parts]atomic.Int32
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for {
				part, count, ok := team.take()
				if !ok {
					return
				}
				if count != parts {
					t.Errorf("part %d of %d, want of %d", part, count, parts)
				}
				taken[part].Add(1)
			}
		})
	}
	group.Wait()
	for i := range taken {
		if n := taken[i].Load(); n != 1 {
			t.Errorf("part %d was taken %d times", i, n)
		}
	}
}

func TestTeam_HelperDoesThePartsOfAnAbsentCaller(t *testing.T) {
	m := Pack(make([]float32, 512*64), 512, 64, 64)
	x, y, start := NewRows(8, 64), NewRows(8, 512), Repeated(Aligned(512))
	for i := range start.Data {
		start.Data[i] = float32(i)
	}
	team := NewTeam(2)
	team.start()
	defer team.Close()
	team.product = product{m, y, x, start, 8, 0, false, NewScratch(8, 64, team)}
	team.work = &team.product
	team.pending.Store(4)
	team.parts.Store(1<<32 | 4<<16)
	team.wakeHelpers()
	team.caller.sleepUntil(team.done)
	for i, v := range y.Row(7, 512) {
		if v != float32(i) {
			t.Fatalf("output %d is %g, want %d", i, v, i)
		}
	}
}

// helping returns the number of goroutines that help a team.
func helping() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "kernel.(*Team).help(")
}

func TestTeam_CloseEndsItsGoroutines(t *testing.T) {
	team := newTestTeam(3)
	for range 20 {
		teamCases()[1].run(team)
		for helping() != 2 { // a goroutine may still begin
			runtime.Gosched()
		}
		team.Close()
		team.Close()
		if n := helping(); n != 0 {
			t.Fatalf("%d goroutines after Close, want none", n)
		}
	}
}

func TestTeam_DoesNotAllocate(t *testing.T) {
	m, team := Pack(make([]float32, 300*300), 300, 300, 300), newTestTeam(2)
	defer team.Close()
	x, y, start, s := NewRows(6, 300), NewRows(6, 300), Repeated(Aligned(300)), NewScratch(6, 300, team)
	square := &squared{x, 300}
	each := func() { s.Each(square, 6, 300) }
	each() // starts the goroutine
	if n := testing.AllocsPerRun(100, each); n != 0 {
		t.Errorf("work on rows allocates %g times", n)
	}
	for _, sparse := range []bool{false, true} {
		multiply := func() { m.Multiply(y, x, start, 6, true, sparse, s) }
		multiply() // starts the goroutine
		if n := testing.AllocsPerRun(100, multiply); n != 0 {
			t.Errorf("sparse %v: a product allocates %g times", sparse, n)
		}
	}
}
