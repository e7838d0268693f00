package controller

import (
	"errors"
	"math"
	"slices"
	"testing"
	"unsafe"
)

// binds are the three records that can lie in shared memory.
var binds = map[string]struct {
	size func(Shape) int
	bind func([]byte, Shape) error
}{
	"tick":  {TickSize, func(b []byte, s Shape) error { _, err := Bind(b, s); return err }},
	"state": {StateSize, func(b []byte, s Shape) error { _, err := BindState(b, s); return err }},
	"plan":  {PlanSize, func(b []byte, s Shape) error { _, err := BindPlan(b, s); return err }},
}

func TestBind_RefusesMemoryThatDoesNotFit(t *testing.T) {
	shape := Shape{3, 2, 5}
	for name, b := range binds {
		n := b.size(shape)
		if n%64 != 0 {
			t.Errorf("%s: %d bytes are no multiple of 64", name, n)
		}
		region := aligned(n + 8)
		if err := b.bind(region[:n], shape); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := b.bind(region[8:], shape); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for mistake, err := range map[string]error{
			"nil":         b.bind(nil, shape),
			"short":       b.bind(region[:n-1], shape),
			"unaligned":   b.bind(region[4:4+n], shape),
			"no obs":      b.bind(region, Shape{0, 2, 5}),
			"no action":   b.bind(region, Shape{3, 0, 5}),
			"no latent":   b.bind(region, Shape{3, 2, 0}),
			"negative":    b.bind(region, Shape{3, -1, 5}),
			"huge obs":    b.bind(region, Shape{math.MaxInt, 2, 5}),
			"huge action": b.bind(region, Shape{3, math.MaxInt / 4, 5}),
			"overflowing": b.bind(region, Shape{3, 2, 1 << 60}),
			"square root": b.bind(region, Shape{3, 2, 1 << 32}),
		} {
			if !errors.Is(err, ErrRegion) {
				t.Errorf("%s, %s: %v", name, mistake, err)
			}
		}
	}
}

// within returns where a slice lies in a region.
func within[T any](t *testing.T, region []byte, s []T) (from, to int) {
	t.Helper()
	base := uintptr(unsafe.Pointer(&region[0]))
	start := uintptr(unsafe.Pointer(&s[0]))
	var zero T
	if start%unsafe.Alignof(zero) != 0 {
		t.Errorf("a slice at %#x is not aligned", start)
	}
	return int(start - base), int(start-base) + len(s)*int(unsafe.Sizeof(zero))
}

func TestBind_PartsDoNotOverlap(t *testing.T) {
	for _, shape := range []Shape{{1, 1, 1}, {3, 2, 5}, {24, 6, 50}, {7, 1, 33}} {
		spans := func(region []byte, pairs ...[2]int) {
			t.Helper()
			slices.SortFunc(pairs, func(a, b [2]int) int { return a[0] - b[0] })
			end := 0
			for _, p := range pairs {
				if p[0] < end || p[1] > len(region) {
					t.Errorf("%+v: %v within %d bytes", shape, pairs, len(region))
				}
				end = p[1]
			}
		}
		pair := func(from, to int) [2]int { return [2]int{from, to} }
		region := aligned(TickSize(shape))
		tick, _ := Bind(region, shape)
		spans(region, pair(0, headerSize), pair(within(t, region, tick.Obs)), pair(within(t, region, tick.Phi)),
			pair(within(t, region, tick.Z)), pair(within(t, region, tick.Action)))
		region = aligned(StateSize(shape))
		st, _ := BindState(region, shape)
		spans(region, pair(0, stateHeaderSize), pair(within(t, region, st.Obs)), pair(within(t, region, st.Belief)))
		region = aligned(PlanSize(shape))
		p, _ := BindPlan(region, shape)
		spans(region, pair(0, planHeaderSize), pair(within(t, region, p.Z)))
	}
}

func TestBind_SharesMemory(t *testing.T) {
	shape := Shape{3, 2, 5}
	region := aligned(TickSize(shape))
	a, _ := Bind(region, shape)
	b, _ := Bind(region, shape)
	a.Index, a.Phi[4], a.Action[1] = 7, 0.5, -1
	if b.Index != 7 || b.Phi[4] != 0.5 || b.Action[1] != -1 {
		t.Error("what one wrote the other does not read")
	}
}

func TestTick_CopyFromCopiesEverything(t *testing.T) {
	shape := Shape{3, 2, 5}
	region := aligned(TickSize(shape))
	for i := range region {
		region[i] = byte(i)
	}
	src, _ := Bind(region, shape)
	other := aligned(TickSize(shape))
	dst, _ := Bind(other, shape)
	dst.CopyFrom(&src)
	used := headerSize + 16*shape.Latent + 4*(shape.Obs+shape.Action)
	if !slices.Equal(region[:used], other[:used]) {
		t.Error("a tick's copy differs")
	}
	from, to := NewPlan(shape), NewPlan(shape)
	*from.PlanHeader = PlanHeader{1, 2, 3, 4, 5}
	from.Z[4] = 6
	to.CopyFrom(from)
	if *to.PlanHeader != *from.PlanHeader || !slices.Equal(to.Z, from.Z) {
		t.Error("a plan's copy differs")
	}
}

// TestLayoutVersion_MatchesSizes fails where a field came or moved: raise
// LayoutVersion, then set the sizes here.
func TestLayoutVersion_MatchesSizes(t *testing.T) {
	got := [...]int{LayoutVersion, headerSize, int(unsafe.Sizeof(AppliedLabel{})), stateHeaderSize, planHeaderSize}
	if want := [...]int{3, 856, 88, 32, 40}; got != want {
		t.Errorf("version, header, label, state, plan: %v, want %v", got, want)
	}
}

func TestFault_HasName(t *testing.T) {
	for f := FaultNone; f <= FaultOperator; f++ {
		if f.String() == "" || f.String()[0] == 'F' {
			t.Errorf("fault %d: %q", f, f)
		}
	}
	for o := Applied; o <= Duplicate; o++ {
		if o.String() == "" || o.String()[0] == 'O' {
			t.Errorf("outcome %d: %q", o, o)
		}
	}
	if got := Fault(99).String() + " " + Outcome(0).String(); got != "Fault(99) Outcome(0)" {
		t.Error(got)
	}
}

func FuzzBind(f *testing.F) {
	f.Add(3, 2, 5, 1024, 0)
	f.Add(1<<62, 1, 1, 64, 0)
	f.Add(1, 1, 1<<31, 64, 0)
	f.Add(3, 2, 5, 100, 3)
	f.Fuzz(func(t *testing.T, obs, action, latent, size, offset int) {
		size, offset = size&0xffff, offset&7
		region := aligned(size + 8)[offset : size+offset]
		shape := Shape{obs, action, latent}
		if tick, err := Bind(region, shape); err == nil {
			tick.Obs[obs-1], tick.Action[action-1], tick.Z[latent-1], tick.NumLabels = 1, 1, 1, 1
		}
		if s, err := BindState(region, shape); err == nil {
			s.Obs[obs-1], s.Belief[len(s.Belief)-1] = 1, 1
		}
		if p, err := BindPlan(region, shape); err == nil {
			p.Z[latent-1] = 1
		}
	})
}
