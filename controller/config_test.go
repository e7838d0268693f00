package controller

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"optibfm/internal/errtest"
)

func TestConfig_DefaultIsValid(t *testing.T) {
	for _, strategy := range []string{UCB, UCBSphere, Thompson, Random} {
		cfg := DefaultConfig()
		cfg.Strategy = strategy
		errtest.Nil(t, cfg.Validate(50))
	}
}

func TestConfig_ValidateNamesKeyOfMistake(t *testing.T) {
	gates := func(set func(*GateConfig, float64), values ...float64) []func(*Config) {
		return numbers(func(c *Config, x float64) { set(&c.Gate, x) }, values...)
	}
	mistakes := map[string][]func(*Config){
		"strategy":   {func(c *Config) { c.Strategy = "" }, func(c *Config) { c.Strategy = "UCB" }},
		"candidates": {func(c *Config) { c.Candidates = -1 }, func(c *Config) { c.Candidates = 1<<16 + 1 }},
		"beta": {
			func(c *Config) { c.Beta = Beta{Schedule: Theory, S: 1} },
			func(c *Config) { c.Beta = Beta{Schedule: Misspecified, S: 1, Delta: 0.1} },
		},
		"beta.schedule": {func(c *Config) { c.Beta = Beta{} }},
		"beta.value":    numbers(func(c *Config, x float64) { c.Beta.Value = x }, -1, nan, 1e10),
		"beta.s":        {func(c *Config) { c.Beta = Beta{Schedule: Theory, S: inf, Delta: 0.1} }},
		"beta.zeta":     {func(c *Config) { c.Beta = Beta{Schedule: Misspecified, S: 1, Delta: 0.1, Zeta: -1, L: 1} }},
		"sigma":         numbers(func(c *Config, x float64) { c.Sigma = x }, 0, -1, nan, inf, 1e-7, 1e7),
		"lambda":        numbers(func(c *Config, x float64) { c.Lambda = x }, 0, -1, nan, inf, 1e-10, 1e10),
		"rho":           numbers(func(c *Config, x float64) { c.Rho = x }, 0, -1, nan, inf, 1.0001, 0.9),
		"fixed_z": {
			func(c *Config) { c.Strategy = Fixed },
			func(c *Config) { c.FixedZ = []float64{1} },
			func(c *Config) { c.FixedZ = make([]float64, 50) },
			func(c *Config) { c.FixedZ = slices.Repeat([]float64{1e200}, 50) },
		},
		"fixed_z[0]":         {func(c *Config) { c.FixedZ = slices.Repeat([]float64{nan}, 50) }},
		"max_plan_age_ticks": {func(c *Config) { c.MaxPlanAge = 0 }},
		"operator: labels": {
			func(c *Config) { c.LabelRange = LabelRange{1, 1} },
			func(c *Config) { c.LabelRange = LabelRange{1, 0} },
			func(c *Config) { c.LabelRange = LabelRange{nan, 1} },
			func(c *Config) { c.LabelRange = LabelRange{0, inf} },
		},
		"labels.good": {
			func(c *Config) { c.Labels = LabelsConfig{0.5, 0.75} },
			func(c *Config) { c.Labels, c.LabelRange = LabelsConfig{}, LabelRange{-1, 1} },
		},

		"gate.kappa":               gates(func(g *GateConfig, x float64) { g.Kappa = x }, -1, nan, inf),
		"gate.requests_per_minute": gates(func(g *GateConfig, x float64) { g.RequestsPerMinute = int(x) }, -1, 10_001),
		"gate.timeout_s":           gates(func(g *GateConfig, x float64) { g.TimeoutS = x }, 0, -1, nan, inf, 3601),
		"gate.backoff_s":           gates(func(g *GateConfig, x float64) { g.BackoffS, g.BackoffMaxS = x, 1 }, -1),
		"gate.backoff_max_s":       gates(func(g *GateConfig, x float64) { g.BackoffMaxS = x }, 0.5, nan, inf, 86_401),
		"gate.labels_per_minute":   gates(func(g *GateConfig, x float64) { g.LabelsPerMinute = x }, -1, 31, nan, inf),

		"credit.delay_s":      numbers(func(c *Config, x float64) { c.Credit.DelayS = x }, -1, nan),
		"credit.width_s":      numbers(func(c *Config, x float64) { c.Credit.WidthS = x }, -1, nan),
		"credit":              numbers(func(c *Config, x float64) { c.Credit.DelayS, c.Credit.WidthS = x, x }, 301),
		"credit.held.delay_s": numbers(func(c *Config, x float64) { c.Credit.Held.DelayS = x }, -1, nan),
		"credit.held.width_s": numbers(func(c *Config, x float64) { c.Credit.Held.WidthS = x }, -1, nan),
		"credit.held":         numbers(func(c *Config, x float64) { c.Credit.Held = HeldConfig{x, x} }, 301),
		"credit.compare_s":    numbers(func(c *Config, x float64) { c.Credit.CompareS = x }, -1, nan, inf, 601),
		"draw.dither":         numbers(func(c *Config, x float64) { c.Draw.Dither = x }, -1, nan, inf, 1001),
		"guard.max_bad_ticks": numbers(func(c *Config, x float64) { c.Guard.MaxBadTicks = int(x) }, -1, 1001),
	}
	mustRefuse(t, mistakes)
}

// mustRefuse fails unless each change of the default configuration is a mistake in its key.
func mustRefuse(t *testing.T, mistakes map[string][]func(*Config)) {
	t.Helper()
	for key, changes := range mistakes {
		for i, change := range changes {
			cfg := DefaultConfig()
			change(&cfg)
			err := cfg.Validate(50)
			var field *FieldError
			if !errors.Is(err, ErrConfig) || !errors.As(err, &field) || field.Key != key || field.Fix == "" {
				t.Errorf("%s, mistake %d: %v", key, i, err)
			}
		}
	}
}

func numbers(set func(*Config, float64), values ...float64) (changes []func(*Config)) {
	for _, x := range values {
		changes = append(changes, func(c *Config) { set(c, x) })
	}
	return changes
}

func TestConfig_ValidateReportsAllMistakes(t *testing.T) {
	err := Config{}.Validate(0)
	for _, key := range []string{
		"strategy", "beta.schedule", "sigma", "lambda", "rho", "gate.timeout_s", "max_plan_age_ticks",
	} {
		if !slices.Contains(keysOf(err), key) {
			t.Errorf("%s is missing in %v", key, keysOf(err))
		}
	}
}

// keysOf collects the keys of all field errors.
func keysOf(err error) (found []string) {
	var field *FieldError
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			found = append(found, keysOf(inner)...)
		}
	default:
		if errors.As(err, &field) {
			found = append(found, field.Key)
		}
	}
	return found
}

func TestConfig_FastForgettingNeedsExactRestore(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Rho = 0.98 // 0.98⁴⁹ = 0.37
	if err := cfg.Validate(0); err != nil {
		t.Errorf("without a model: %v", err)
	}
	if err := cfg.Validate(50); err == nil {
		t.Error("accepted")
	}
	cfg.ExactRestore = true
	errtest.Nil(t, cfg.Validate(50))
	l, err := NewLearner(cfg, 50, testPeriod)
	if err != nil || !l.Belief().ExactRestore() {
		t.Errorf("the belief does not restore exactly (%v)", err)
	}
}

func TestNewLearner_RefusesTooLongHistory(t *testing.T) {
	for key, c := range map[string]struct {
		change func(*Config)
		period time.Duration
	}{
		"credit.width_s": {func(c *Config) { c.Credit.WidthS = 5 }, time.Millisecond},
		"gate.timeout_s": {func(c *Config) { c.Gate.TimeoutS = 3600 }, time.Millisecond},
	} {
		cfg := DefaultConfig()
		c.change(&cfg)
		_, err := NewLearner(cfg, 50, c.period)
		var field *FieldError
		if !errors.Is(err, ErrConfig) || !errors.As(err, &field) || field.Key != key {
			t.Errorf("%s: %v", key, err)
		}
	}
	for _, period := range []time.Duration{0, -1} {
		if _, err := NewLearner(DefaultConfig(), 50, period); !errors.Is(err, ErrConfig) {
			t.Errorf("period %v: %v", period, err)
		}
	}
	if _, err := NewLearner(DefaultConfig(), 1, time.Nanosecond); err == nil {
		t.Error("accepted a history of seven seconds at a period of 1 ns")
	}
}

// FuzzValidate searches for a configuration that passes and then fails in use.
func FuzzValidate(f *testing.F) {
	f.Add(1.0, 1.0, 1.0, 1.0, 0.0, 5.0, 1.0, 60.0, 0.2, 0.4, 30, 3)
	f.Add(nan, inf, -1.0, 1e300, nan, 0.0, -1.0, nan, inf, 1e300, -1, -1)
	f.Add(1e9, 1e-6, 1e-9, 0.99, 700.0, 1e-9, 0.0, 0.0, 600.0, 0.0, 10_000, 1000)
	f.Fuzz(func(t *testing.T, beta, sigma, lambda, rho, kappa, timeout, backoff, backoffMax, delay, width float64,
		perMinute, bad int) {
		cfg := DefaultConfig()
		cfg.Beta.Value, cfg.Sigma, cfg.Lambda, cfg.Rho, cfg.Candidates = beta, sigma, lambda, rho, 4
		cfg.Gate = GateConfig{
			Kappa: kappa, RequestsPerMinute: perMinute, TimeoutS: timeout, BackoffS: backoff, BackoffMaxS: backoffMax,
		}
		cfg.Credit = CreditConfig{DelayS: delay, WidthS: width}
		cfg.Guard.MaxBadTicks = bad
		if cfg.Validate(rigLatent) != nil {
			return
		}
		if _, err := NewLearner(cfg, rigLatent, testPeriod); err != nil {
			if len(keysOf(err)) != 1 {
				t.Fatal(err)
			}
			return // the window is too long for this period
		}
		r := newRig(t, func(c *Config) { *c = cfg })
		r.source.onAsk = obliging(r)
		for range 20 {
			r.steps(1)
			refused := r.tick.NumLabels > 0 && r.tick.Labels[0].Outcome != Applied
			if refused || !finite(r.tick.LogDet) || !finite(norm(r.tick.Z)) {
				t.Fatalf("%+v: %+v", cfg, r.tick.Header)
			}
		}
	})
}

func TestTicks_RoundsUp(t *testing.T) {
	for _, c := range []struct {
		seconds float64
		least   uint64
		want    uint64
	}{{0, 0, 0}, {0, 1, 1}, {0.02, 0, 1}, {0.0200001, 0, 2}, {0.3, 0, 15}, {86_400, 0, 4_320_000}} {
		if got := ticks(c.seconds, testPeriod, c.least); got != c.want {
			t.Errorf("%g s, at least %d: %d, want %d", c.seconds, c.least, got, c.want)
		}
	}
	if got := ticks(86_400, time.Nanosecond, 0); math.Abs(float64(got)-8.64e13) > 1 {
		t.Errorf("a day of nanoseconds: %d", got)
	}
}
