package controller

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// naive is an independent reference for the learner: it keeps every tick and every
// label, and computes V = D + Σ ρ^age w φ̄φ̄ᵀ from the definition.
type naive struct {
	cfg      Config
	d        int
	capacity int // ticks that may be credited
	clock    uint64
	seen     []naiveTick
	labels   []naiveLabel
	ids      map[uint64]bool
	prior    []float64
	cursor   int
}

type naiveTick struct {
	tick, clock uint64
	at          int64
	phi         []float64
}

type naiveLabel struct {
	id     uint64
	phi    []float64
	reward float64
	weight float64 // at age 0
	clock  uint64  // of the credited moment
	gone   bool
}

func newNaive(cfg Config, d, capacity int) *naive {
	n := &naive{cfg: cfg, d: d, capacity: capacity, prior: make([]float64, d), ids: map[uint64]bool{}}
	for i := range n.prior {
		n.prior[i] = cfg.Lambda
	}
	return n
}

func (n *naive) advance(periods uint64) {
	n.clock += periods
	for range periods {
		for i := range n.prior {
			n.prior[i] *= n.cfg.Rho
		}
		n.prior[n.cursor] = n.cfg.Lambda
		n.cursor = (n.cursor + 1) % n.d
	}
}

func (n *naive) observe(tick uint64, at int64, phi []float64) {
	n.seen = append(n.seen, naiveTick{tick, n.clock, at, slices.Clone(phi)})
}

func (n *naive) held() []naiveTick { return n.seen[max(0, len(n.seen)-n.capacity):] }

// apply returns the outcome of a label.
func (n *naive) apply(l rewardsrc.Label, asked uint64) Outcome {
	if l.ID != 0 && n.ids[l.ID] {
		return Duplicate
	}
	n.ids[l.ID] = true
	if l.Kind == rewardsrc.Undo {
		return n.undo(l.Undoes)
	}
	confidence := l.Weight
	if confidence == 0 {
		confidence = 1
	}
	if math.IsNaN(l.Value) || math.Abs(l.Value) > 1e9 || !(confidence > 0 && confidence <= 1) {
		return BadLabel
	}
	ticks := n.about(l, asked)
	if len(ticks) == 0 {
		return TooOld
	}
	e := n.entry(l, ticks, confidence)
	switch l.Kind {
	case rewardsrc.Comparison:
		before := n.before(ticks)
		if before == nil {
			return TooOld
		}
		e.weight /= 2
		for i, x := range before {
			e.phi[i] -= x
		}
	case rewardsrc.Goal:
		e.weight *= 4
	}
	n.labels = append(n.labels, e)
	return Applied
}

// before returns the mean features with which a comparison about some ticks compares, nil for none.
func (n *naive) before(ticks []naiveTick) []float64 {
	lag := uint64(math.Round(n.cfg.Credit.CompareS / testPeriod.Seconds()))
	if ticks[0].tick < lag {
		return nil
	}
	return mean(n.held(), ticks[0].tick-lag, ticks[len(ticks)-1].tick-lag)
}

// mean returns the triangular mean of the features of the ticks [from, to], nil for none.
func mean(ticks []naiveTick, from, to uint64) (sum []float64) {
	total := 0.0
	for _, s := range ticks {
		if s.tick < from || s.tick > to {
			continue
		}
		if sum == nil {
			sum = make([]float64, len(s.phi))
		}
		w := 1 + math.Min(float64(s.tick-from), float64(to-s.tick))
		total += w
		floats.AddScaled(sum, w, s.phi)
	}
	floats.Scale(1/total, sum)
	return sum
}

func (n *naive) undo(id uint64) Outcome {
	for i := len(n.labels) - 1; i >= 0; i-- {
		if e := &n.labels[i]; !e.gone && (id == 0 || e.id == id) {
			e.gone = true
			return Applied
		}
	}
	return NothingToUndo
}

// about returns the ticks that a label is about.
func (n *naive) about(l rewardsrc.Label, asked uint64) (ticks []naiveTick) {
	only := asked
	if l.Request == 0 {
		only = l.Tick
	}
	if only != rewardsrc.NoTick {
		for _, s := range n.held() {
			if s.tick == only {
				ticks = append(ticks, s)
			}
		}
		return ticks
	}
	until := l.At - int64(n.cfg.Credit.DelayS*1e9)
	since := until - int64(n.cfg.Credit.WidthS*1e9)
	var before []naiveTick
	for _, s := range n.held() {
		switch {
		case s.at < since:
			before = append(before, s)
		case s.at <= until:
			ticks = append(ticks, s)
		}
	}
	if len(ticks) == 0 && len(before) > 0 && since-before[len(before)-1].at <= 1e9 {
		return before[len(before)-1:]
	}
	return ticks
}

func (n *naive) entry(l rewardsrc.Label, ticks []naiveTick, confidence float64) naiveLabel {
	from, to := ticks[0].tick, ticks[len(ticks)-1].tick
	middle := from + (to-from)/2
	weight := confidence / (n.cfg.Sigma * n.cfg.Sigma)
	e := naiveLabel{id: l.ID, reward: l.Value, weight: weight, phi: mean(ticks, from, to)}
	for _, s := range ticks {
		if s.tick <= middle {
			e.clock = s.clock
		}
	}
	return e
}

// vb returns V and b.
func (n *naive) vb() (v *mat.SymDense, b *mat.VecDense) {
	v, b = mat.NewSymDense(n.d, nil), mat.NewVecDense(n.d, nil)
	for i, p := range n.prior {
		v.SetSym(i, i, p)
	}
	for _, l := range n.labels {
		if l.gone {
			continue
		}
		w := l.weight * math.Pow(n.cfg.Rho, float64(n.clock-l.clock))
		phi := mat.NewVecDense(n.d, l.phi)
		v.SymRankOne(v, w, phi)
		b.AddScaledVec(b, w*l.reward, phi)
	}
	return v, b
}

func stateLen(l *Learner) int { return posterior.StateLen(l.belief.Dim()) }

// factored returns V and b of a learner.
func factored(l *Learner) (v *mat.SymDense, b *mat.VecDense) {
	d := l.belief.Dim()
	s := state(l)
	r := mat.NewDense(d, d, nil)
	for i, off := 0, 0; i < d; i++ {
		for j := i; j < d; j++ {
			r.Set(i, j, s[off])
			off++
		}
	}
	var product mat.Dense
	product.Mul(r.T(), r)
	v = mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			v.SetSym(i, j, product.At(i, j))
		}
	}
	return v, mat.NewVecDense(d, slices.Clone(s[d*(d+1)/2:][:d]))
}

// mustAgree compares a learner with the reference, to 1e-9 of V's size.
func mustAgree(t interface {
	Helper()
	Fatalf(string, ...any)
}, l *Learner, n *naive) {
	t.Helper()
	v, b := factored(l)
	wantV, wantB := n.vb()
	var dv mat.Dense
	dv.Sub(v, wantV)
	if e := mat.Norm(&dv, 2); !(e <= 1e-9*mat.Norm(wantV, 2)) {
		t.Fatalf("V is off by %g:\n%v\nwant\n%v", e, mat.Formatted(v), mat.Formatted(wantV))
	}
	var db mat.VecDense
	db.SubVec(b, wantB)
	if e := mat.Norm(&db, 2); !(e <= 1e-9*(1+mat.Norm(wantB, 2))) {
		t.Fatalf("b is off by %g: %v, want %v", e, mat.Formatted(b.T()), mat.Formatted(wantB.T()))
	}
}

// beliefsAgree compares two states to 1e-9.
func beliefsAgree(t testing.TB, got, want []float64) {
	t.Helper()
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= 1e-9*(1+math.Abs(want[i]))) {
			t.Fatalf("entry %d of the belief's state is %v, want %v", i, got[i], want[i])
		}
	}
}
