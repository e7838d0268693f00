package controller

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// binds are the records that can lie in shared memory.
var binds = map[string]struct {
	size func(Shape) int
	bind func([]byte, Shape) error
}{
	"tick":  {TickSize, func(b []byte, s Shape) error { _, err := Bind(b, s); return err }},
	"state": {StateSize, func(b []byte, s Shape) error { _, err := BindState(b, s); return err }},
	"plan":  {PlanSize, func(b []byte, s Shape) error { _, err := BindPlan(b, s); return err }},
}

func TestBind_RefusesMemoryThatDoesNotFit(t *testing.T) {
	shape := Shape{3, 2, 5, 0}
	for name, b := range binds {
		n := b.size(shape)
		if n%64 != 0 {
			t.Errorf("%s: %d bytes are not a multiple of 64", name, n)
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
			"no obs":      b.bind(region, Shape{0, 2, 5, 0}),
			"no action":   b.bind(region, Shape{3, 0, 5, 0}),
			"no latent":   b.bind(region, Shape{3, 2, 0, 0}),
			"negative":    b.bind(region, Shape{3, -1, 5, 0}),
			"huge obs":    b.bind(region, Shape{math.MaxInt, 2, 5, 0}),
			"huge action": b.bind(region, Shape{3, math.MaxInt / 4, 5, 0}),
			"overflowing": b.bind(region, Shape{3, 2, 1 << 60, 0}),
			"square root": b.bind(region, Shape{3, 2, 1 << 32, 0}),
		} {
			if !errors.Is(err, ErrRegion) {
				t.Errorf("%s, %s: %v", name, mistake, err)
			}
		}
	}
}

// within returns the position of a slice in a region.
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
	for _, shape := range []Shape{{1, 1, 1, 0}, {3, 2, 5, 1}, {24, 6, 50, 0}, {7, 1, 33, 1}} {
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

func TestTick_CopyFromCopiesEverything(t *testing.T) {
	shape := Shape{3, 2, 5, 0}
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
		t.Error("the copy of a tick differs")
	}
	from, to := NewPlan(shape), NewPlan(shape)
	*from.PlanHeader = PlanHeader{1, 2, 3, 4, 5, Interval{0.5, 0.7, 1}}
	from.Z[4] = 6
	to.CopyFrom(from)
	if *to.PlanHeader != *from.PlanHeader || !slices.Equal(to.Z, from.Z) {
		t.Error("the copy of a plan differs")
	}
}

// TestLayoutVersion_MatchesSizes fails after a change of the layout: raise
// LayoutVersion, then set the sizes here.
func TestLayoutVersion_MatchesSizes(t *testing.T) {
	got := [...]int{LayoutVersion, headerSize, int(unsafe.Sizeof(AppliedLabel{})), stateHeaderSize, planHeaderSize}
	if want := [...]int{12, 1096, 96, 80, 64}; got != want {
		t.Errorf("version, header, label, state, plan: %v, want %v", got, want)
	}
}

func TestString_NamesEveryValue(t *testing.T) {
	for kind, c := range map[string]struct {
		n       uint32
		name    func(uint32) string
		unknown string
	}{
		"Fault":   {uint32(FaultOperator) + 1, func(i uint32) string { return Fault(i).String() }, "Fault(99)"},
		"Outcome": {uint32(RobotStopped), func(i uint32) string { return Outcome(i + 1).String() }, "Outcome(100)"},
		"Mode":    {uint32(Stopped) + 1, func(i uint32) string { return Mode(i).String() }, "Mode(99)"},
		"Stage":   {uint32(numStages), func(i uint32) string { return Stage(i).String() }, "Stage(99)"},
	} {
		seen := map[string]bool{}
		for i := range c.n {
			name := c.name(i)
			if name == "" || strings.HasPrefix(name, kind+"(") || seen[name] {
				t.Errorf("%s %d has the name %q", kind, i, name)
			}
			seen[name] = true
		}
		if got := c.name(99); got != c.unknown {
			t.Errorf("got %q, want %q", got, c.unknown)
		}
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
		shape := Shape{obs, action, latent, 0}
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
