package report

import (
	"errors"
	"math"
	"strconv"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/posterior"
)

// Bounds of the what-if study.
const (
	maxStudyWork   = 3e9     // ticks × d² × settings, some seconds
	minSettings    = 2       // settings that are computed in any case
	maxStudyPoints = 1 << 12 // values of a curve, see column
	maxStudyStates = 64      // moments at which a setting's belief is shown
)

// study is the result of flightlog.WhatIfAll for a grid of settings, see page/study.js.
type study struct {
	Why       string    `json:"why,omitempty"` // why Settings is empty
	Warm      bool      `json:"warm"`          // a belief in the log holds labels of earlier runs
	Missing   uint64    `json:"missing"`       // periods without a record
	Run       studyRun  `json:"run"`
	Bucket    int       `json:"bucket"`  // ticks that share a point of a curve
	Moments   packed    `json:"moments"` // uint32: positions at which Norms and Z are given
	Settings  []setting `json:"settings"`
	positions []uint32
}

// studyRun are the run's own numbers, to compare with.
type studyRun struct {
	Asked     uint64 `json:"asked"`
	Labels    uint64 `json:"labels"`
	Norm      number `json:"norm"`
	MeanBonus number `json:"mean_bonus"`
}

// setting is one point of the grid and its answer.
type setting struct {
	Kappa *float64 `json:"kappa"` // null: the labels as they came
	Rho   *float64 `json:"rho"`   // null: that of the run

	Asked      uint64 `json:"asked"`
	ByLabel    uint64 `json:"by_label"`
	ByReward   uint64 `json:"by_reward"`
	CantTell   uint64 `json:"cant_tell"`
	Unanswered uint64 `json:"unanswered"`
	Unasked    uint64 `json:"unasked"`
	Labels     uint64 `json:"labels"`
	Norm       number `json:"norm"`
	Cosine     number `json:"cosine"`
	MeanBonus  number `json:"mean_bonus"`

	DGap     packed `json:"dgap"`     // float32 curve
	Estimate packed `json:"estimate"` // float32 curve: φᵀẑ
	Norms    packed `json:"norms"`    // float64 [moments]
	Z        packed `json:"z"`        // float32 [moments, d]
	Skipped  packed `json:"skipped"`  // uint32: rows of data.labels that did not enter
}

// newStudy computes the study of a log. The page explains an empty one.
func newStudy(r *flightlog.Reader, c *collected, b *believed) study {
	n, d := c.ticks(), c.meta.Shape.Latent
	s := study{
		Missing: c.summary.Dropped, Bucket: bucket(n, maxStudyPoints), Settings: []setting{},
		Run: studyRun{Asked: c.summary.Asked, Norm: number(b.result.ZNorm), MeanBonus: number(math.NaN())},
	}
	for _, l := range c.labels {
		if l.enters() {
			s.Run.Labels++
		}
	}
	if beta := c.meta.Control.Beta; beta.Schedule == controller.Constant {
		s.Run.MeanBonus = number(beta.Value * b.length / b.scored)
	}
	if b.failed != nil {
		s.Why, s.Run.Norm = "the log could not be replayed", number(math.NaN())
		return s
	}
	if n == 0 {
		s.Why = "the log holds no ticks"
		return s
	}
	for pos := 0; pos < n; pos++ {
		if pos%((n+maxStudyStates-1)/maxStudyStates) == 0 || pos == n-1 {
			s.positions = append(s.positions, uint32(pos))
		}
	}
	s.Moments = uint32s(s.positions)
	err := s.compute(r, c, b, settings(c.meta.Control, n, d, true))
	if s.Warm = errors.Is(err, flightlog.ErrWarmStart); s.Warm {
		err = s.compute(r, c, b, settings(c.meta.Control, n, d, false))
	}
	if err != nil {
		s.Why = err.Error()
	}
	return s
}

// settings returns the grid around the run's own κ and ρ, without the run itself. It
// shrinks with the work that a setting takes. Without rho, it keeps the run's ρ.
func settings(cfg controller.Config, n, d int, rho bool) []flightlog.Params {
	kappas, rhos := kappaValues(cfg.Gate.Kappa), []*float64{nil}
	if rho {
		rhos = append(rhos, rhoValues(cfg, d)...)
	}
	limit := max(minSettings, int(maxStudyWork/(float64(n)*float64(d)*float64(d))))
	if len(kappas)*len(rhos)-1 > limit {
		rhos = rhos[:1]
	}
	if len(kappas)-1 > limit {
		kappas = []*float64{kappas[3], kappas[5]}
	}
	var all []flightlog.Params
	for _, r := range rhos {
		for _, k := range kappas {
			if k != nil || r != nil {
				all = append(all, flightlog.Params{Kappa: k, Rho: r})
			}
		}
	}
	return all
}

// kappaValues returns the κ of the grid; nil leaves the gate out.
func kappaValues(own float64) []*float64 {
	values := []float64{0, own / 4, own / 2, own, 2 * own, 4 * own}
	if own == 0 {
		values = []float64{0, 0.02, 0.05, 0.1, 0.3, 1}
	}
	return append([]*float64{nil}, pointers(values)...)
}

// rhoValues returns the ρ of the grid other than the run's own.
func rhoValues(cfg controller.Config, d int) []*float64 {
	forgotten := 1 - cfg.Rho
	values := []float64{1, 1 - forgotten/4, 1 - 4*forgotten}
	if forgotten == 0 {
		values = []float64{0.9999, 0.999}
	}
	var valid []float64
	for _, v := range values {
		cfg.Rho = rounded(v)
		if _, err := cfg.NewBelief(d); err == nil { // a belief of many dimensions needs a ρ near 1
			valid = append(valid, v)
		}
	}
	return pointers(valid)
}

// rounded returns x to 8 digits, as the page and the command line show it.
func rounded(x float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 8, 64), 64)
	if err != nil {
		panic(err) // FormatFloat wrote it
	}
	return short
}

func pointers(values []float64) []*float64 {
	all := make([]*float64, len(values))
	for i, v := range values {
		v = rounded(v)
		all[i] = &v
	}
	return all
}

// compute fills Settings.
func (s *study) compute(r *flightlog.Reader, c *collected, b *believed, grid []flightlog.Params) error {
	drawn := make([]*curves, len(grid))
	for i := range drawn {
		drawn[i] = newCurves(s, c.meta)
	}
	answers, err := flightlog.WhatIfAll(r, b.result, grid,
		func(i int, t *controller.Tick, dgap float64, belief *posterior.Belief) { drawn[i].add(t, dgap, belief) })
	if err != nil {
		return err
	}
	for i, a := range answers {
		s.Settings = append(s.Settings, setting{
			Kappa: grid[i].Kappa, Rho: grid[i].Rho,
			Asked: a.Asked, ByLabel: a.ByLabel, ByReward: a.ByReward, CantTell: a.CantTell,
			Unanswered: a.Unanswered, Unasked: a.Unasked, Labels: a.Labels,
			Norm: number(a.ZNorm), Cosine: number(a.Cosine), MeanBonus: number(a.MeanBonus),
			DGap: float32s(drawn[i].dgap.points), Estimate: float32s(drawn[i].estimate.points),
			Norms: float64s(drawn[i].norms), Z: float32s(drawn[i].z), Skipped: uint32s(c.skipped(a.Entered)),
		})
	}
	return nil
}

// enters reports whether a label is a reward that entered the belief of the run.
func (l *label) enters() bool { return l.Outcome == controller.Applied && l.Kind.Teaches() }

// skipped returns the rows of the labels that entered the belief of the run and are
// not among the given IDs.
func (c *collected) skipped(entered []uint64) []uint32 {
	ids := make(map[uint64]bool, len(entered))
	for _, id := range entered {
		ids[id] = true
	}
	var rows []uint32
	for i, l := range c.labels {
		if l.enters() && !ids[l.ID] {
			rows = append(rows, uint32(i))
		}
	}
	return rows
}

// curves collects the curves of one setting.
type curves struct {
	cfg            controller.Config
	zero           float64
	study          *study
	pos            int
	dgap, estimate envelope
	norms          []float64
	z              []float32
	mean           []float64 // ẑ after the tick before
}

func newCurves(s *study, meta flightlog.Metadata) *curves {
	return &curves{
		study: s, cfg: meta.Control, mean: make([]float64, meta.Shape.Latent),
		dgap: envelope{size: s.Bucket}, estimate: envelope{size: s.Bucket},
	}
}

func (c *curves) add(t *controller.Tick, dgap float64, belief *posterior.Belief) {
	estimate := math.NaN()
	if c.pos > 0 && !t.Flags.Has(controller.FlagBadObs) {
		estimate = c.cfg.Expected(t.Phi, c.mean, c.zero)
	}
	c.dgap.add(dgap)
	c.estimate.add(estimate)
	c.cfg.Mean(c.mean, belief)
	c.zero = c.cfg.Zero(belief)
	if k := len(c.norms); k < len(c.study.positions) && int(c.study.positions[k]) == c.pos {
		c.norms = append(c.norms, math.Sqrt(dot(c.mean, c.mean)))
		for _, v := range c.mean {
			c.z = append(c.z, float32(v))
		}
	}
	c.pos++
}

func bit(set bool) uint8 {
	if set {
		return 1
	}
	return 0
}

// meanOf returns the mean of the values that are not NaN.
func meanOf(x []float64) float64 {
	sum, n := 0.0, 0.0
	for _, v := range x {
		if v == v {
			sum += v
			n++
		}
	}
	return sum / n
}
