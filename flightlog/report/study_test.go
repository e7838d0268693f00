package report

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
)

// embedded returns the JSON data in a page.
func embedded(t testing.TB, page []byte) []byte {
	t.Helper()
	_, rest, ok := bytes.Cut(page, []byte(`id="data">`))
	if !ok {
		t.Fatal("the page has no data")
	}
	content, _, _ := bytes.Cut(rest, []byte("</script>"))
	return content
}

// UnmarshalJSON is the inverse of MarshalJSON: null is NaN.
func (x *number) UnmarshalJSON(text []byte) error {
	*x = number(math.NaN())
	if string(text) == "null" {
		return nil
	}
	return json.Unmarshal(text, (*float64)(x))
}

// studyOf returns the study in the page of a log.
func studyOf(t testing.TB, log string) study {
	t.Helper()
	page, _ := pageOf(t, log)
	var d struct{ Study study }
	fatal.If(t, json.Unmarshal(embedded(t, page), &d))
	return d.Study
}

func near(got, want float64) bool {
	return math.Abs(got-want) <= 1e-9*max(1, math.Abs(want)) || math.IsNaN(got) && math.IsNaN(want)
}

func every37th(index uint64) bool { return index%37 == 5 }

func TestWrite_StudyEqualsWhatIf(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*simulation)
		settings int
	}{
		"late answers":             {func(*simulation) {}, 7*4 - 1},
		"no forgetting":            {func(s *simulation) { s.Config.Rho = 1 }, 7*3 - 1},
		"dropped ticks":            {func(s *simulation) { s.Drop = every37th }, 7*4 - 1},
		"labels of an earlier run": {func(s *simulation) { s.Warm = true }, 7 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := simulated()
			s.Ticks = 200
			c.change(&s)
			log := s.write(t)
			got := studyOf(t, log)
			if len(got.Settings) != c.settings || got.Warm != s.Warm || got.Why != "" {
				t.Fatalf("%d settings, want %d; warm %v, %q", len(got.Settings), c.settings, got.Warm, got.Why)
			}
			for _, setting := range got.Settings {
				want, err := flightlog.WhatIf(open(t, log), flightlog.Params{Kappa: setting.Kappa, Rho: setting.Rho})
				fatal.If(t, err)
				compareSetting(t, setting, want)
				if skipped := unpack[uint32](t, setting.Skipped); !slices.Equal(skipped, skippedRows(t, log, want)) {
					t.Errorf("skipped labels: %v", skipped)
				}
			}
		})
	}
}

func compareSetting(t *testing.T, got setting, want flightlog.Answer) {
	t.Helper()
	for name, pair := range map[string][2]uint64{
		"asked": {got.Asked, want.Asked}, "by label": {got.ByLabel, want.ByLabel},
		"by reward": {got.ByReward, want.ByReward}, "can't tell": {got.CantTell, want.CantTell},
		"unanswered": {got.Unanswered, want.Unanswered}, "unasked": {got.Unasked, want.Unasked},
		"labels": {got.Labels, want.Labels},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %d, want %d", name, pair[0], pair[1])
		}
	}
	norms := unpack[float64](t, got.Norms)
	for name, pair := range map[string][2]float64{
		"norm": {float64(got.Norm), want.ZNorm}, "last norm": {norms[len(norms)-1], want.ZNorm},
		"cosine": {float64(got.Cosine), want.Cosine}, "mean bonus": {float64(got.MeanBonus), want.MeanBonus},
	} {
		if !near(pair[0], pair[1]) {
			t.Errorf("%s: got %.17g, want %.17g", name, pair[0], pair[1])
		}
	}
}

// skippedRows returns the rows of the rewards that the run applied and a is without.
func skippedRows(t *testing.T, log string, a flightlog.Answer) []uint32 {
	t.Helper()
	rows, row := []uint32{}, uint32(0)
	for record, err := range open(t, log).Records() {
		fatal.If(t, err)
		if record.Tick == nil {
			continue
		}
		for _, l := range record.Tick.Labels[:record.Tick.NumLabels] {
			if l.Outcome == controller.Applied && l.Kind == rewardsrc.Value && !slices.Contains(a.Entered, l.ID) {
				rows = append(rows, row)
			}
			row++
		}
	}
	return rows
}

// The reference inverts V = λI + Σ ρ^age φφᵀ by Gaussian elimination at every tick.
// The rewards of the simulator answer each request at once, so the gate's pauses and
// limits play no part.
func TestWrite_StudyEqualsBruteForce(t *testing.T) {
	s := simulated()
	s.Ticks, s.Latent, s.Silent, s.Config.ExactRestore = 300, 6, true, true
	log := s.write(t)
	study := studyOf(t, log)
	if len(study.Settings) == 0 {
		t.Fatal("no settings")
	}
	for _, got := range study.Settings {
		want := bruteForce(t, log, s, got)
		if got.Asked != want.asked || got.ByReward != want.asked || got.Labels != want.asked {
			t.Errorf("asked %d, answered %d, labels %d, want %d", got.Asked, got.ByReward, got.Labels, want.asked)
		}
		for k, pos := range unpack[uint32](t, study.Moments) {
			if norm := unpack[float64](t, got.Norms)[k]; !near(norm, want.norms[pos]) {
				t.Fatalf("norm after tick %d: got %.17g, want %.17g", pos, norm, want.norms[pos])
			}
		}
		for name, pair := range map[string][2][]float32{
			"dgap":     {unpack[float32](t, got.DGap), want.dgap},
			"estimate": {unpack[float32](t, got.Estimate), want.estimate},
		} {
			for i, w := range pair[1] {
				if g := pair[0][i]; math.Abs(float64(g-w)) > 1e-5 || len(pair[0]) != len(pair[1]) {
					t.Fatalf("%s[%d]: got %g, want %g", name, i, g, w)
				}
			}
		}
	}
}

type reference struct {
	asked          uint64
	norms          []float64
	dgap, estimate []float32
}

func bruteForce(t *testing.T, log string, s simulation, at setting) (ref reference) {
	t.Helper()
	rho := s.Config.Rho
	if at.Rho != nil {
		rho = *at.Rho
	}
	var phis [][]float64
	var rewards, weights []float64 // of the labels
	precision := func() [][]float64 {
		v := make([][]float64, s.Latent)
		for i := range v {
			v[i] = make([]float64, s.Latent)
			v[i][i] = s.Config.Lambda
			for k, phi := range phis {
				for j := range phi {
					v[i][j] += weights[k] * phi[i] * phi[j]
				}
			}
		}
		return v
	}
	mean := make([]float64, s.Latent)
	for record, err := range open(t, log).Records() {
		fatal.If(t, err)
		tick := record.Tick
		if tick == nil {
			continue
		}
		for k := range weights {
			weights[k] *= math.Pow(rho, float64(tick.Elapsed))
		}
		estimate := float32(math.NaN())
		if len(ref.norms) > 0 {
			estimate = float32(dot(tick.Phi, mean))
		}
		ref.estimate = append(ref.estimate, estimate)
		dgap := math.Log1p(dot(tick.Phi, solve(precision(), tick.Phi)))
		ref.dgap = append(ref.dgap, float32(dgap))
		if at.Kappa != nil && dgap >= *at.Kappa {
			ref.asked++
			phis, rewards = append(phis, slices.Clone(tick.Phi)), append(rewards, tick.Reward)
			weights = append(weights, 1)
		}
		b := make([]float64, s.Latent)
		for k, phi := range phis {
			for i := range b {
				b[i] += weights[k] * rewards[k] * phi[i]
			}
		}
		mean = solve(precision(), b)
		ref.norms = append(ref.norms, math.Sqrt(dot(mean, mean)))
	}
	return ref
}

// solve returns a⁻¹b by Gaussian elimination. It overwrites a.
func solve(a [][]float64, b []float64) []float64 {
	n, x := len(b), slices.Clone(b)
	for k := range n {
		for i := k + 1; i < n; i++ {
			f := a[i][k] / a[k][k]
			for j := k; j < n; j++ {
				a[i][j] -= f * a[k][j]
			}
			x[i] -= f * x[k]
		}
	}
	for k := n - 1; k >= 0; k-- {
		for j := k + 1; j < n; j++ {
			x[k] -= a[k][j] * x[j]
		}
		x[k] /= a[k][k]
	}
	return x
}

func TestSettings_ShrinkForLongLogs(t *testing.T) {
	cfg := controller.DefaultConfig()
	cfg.Gate.Kappa, cfg.Rho = 0.3, 0.9995
	for _, c := range []struct {
		n, d int
		rho  bool
		want int
	}{
		{1000, 50, true, 7*4 - 1},
		{1000, 50, false, 7 - 1},
		{180_000, 50, true, 7 - 1},
		{1_000_000, 256, true, minSettings},
		{50, 1000, true, 7*3 - 1}, // so many dimensions do not allow 4 times the forgetting
	} {
		all := settings(cfg, c.n, c.d, c.rho)
		if len(all) != c.want {
			t.Errorf("%d ticks, d = %d: %d settings, want %d", c.n, c.d, len(all), c.want)
		}
		for _, p := range all {
			if p.Rho == nil {
				continue
			}
			changed := cfg
			changed.Rho = *p.Rho
			errtest.Nil(t, errtest.Of(changed.NewBelief(c.d)), "d = ", c.d, ": ρ = ", *p.Rho)
		}
	}
	if short := settings(cfg, 1_000_000, 256, true); *short[0].Kappa != 0.15 || *short[1].Kappa != 0.6 {
		t.Errorf("κ %g and %g", *short[0].Kappa, *short[1].Kappa)
	}
}
