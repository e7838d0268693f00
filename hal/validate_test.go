package hal_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/hal/haltest"
)

func TestSpec_RefusesInvalid(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	cases := []struct {
		name string
		harm func(*hal.Spec)
		want string // part of the error; empty: valid
	}{
		{"a good one", func(*hal.Spec) {}, ""},
		{"limits of observations", func(s *hal.Spec) { s.Obs[0].Min, s.Obs[0].Max = -1, 2 }, ""},
		{"a rate limit", func(s *hal.Spec) { s.Action[0].MaxRate = 3 }, ""},
		{"failsafe on the limit", func(s *hal.Spec) { s.Action[0].Failsafe = -1 }, ""},
		{"no name", func(s *hal.Spec) { s.Name = "" }, "name of the robot: it is empty"},
		{"no period", func(s *hal.Spec) { s.Period = 0 }, "period is not positive"},
		{"negative period", func(s *hal.Spec) { s.Period = -time.Second }, "period is not positive"},
		{"no observation", func(s *hal.Spec) { s.Obs = nil }, "obs: no channels"},
		{"no action", func(s *hal.Spec) { s.Action = nil }, "action: no channels"},
		{"too many", func(s *hal.Spec) { *s = haltest.Spec(hal.MaxChannels+1, 1) }, "too many channels (1025)"},
		{"empty channel name", func(s *hal.Spec) { s.Obs[1].Name = "" }, "channel 1: name: it is empty"},
		{"same name", func(s *hal.Spec) { s.Action[1].Name = "a0" }, `channels 0 and 1 have the same name ("a0")`},
		{"long name", func(s *hal.Spec) { s.Obs[1].Name = strings.Repeat("x", 129) }, "too long (129 bytes)"},
		{"escape sequence", func(s *hal.Spec) { s.Obs[1].Name = "\x1b[2J" }, "unprintable"},
		{"no UTF-8", func(s *hal.Spec) { s.Obs[1].Unit = "\xff" }, "unit: it is not UTF-8"},
		{"limits of an observation", func(s *hal.Spec) { s.Obs[0].Min = 1 }, "with min < max (1 to 0)"},
		{"no limits of an action", func(s *hal.Spec) { s.Action[0].Min, s.Action[0].Max = 0, 0 }, "not finite"},
		{"NaN limit", func(s *hal.Spec) { s.Action[0].Max = nan }, "limits are not finite"},
		{"infinite limit", func(s *hal.Spec) { s.Action[0].Max = inf }, "limits are not finite"},
		{"limit beyond float32", func(s *hal.Spec) { s.Action[0].Max = 1e300 }, "limits are not finite"},
		{"equal as float32", func(s *hal.Spec) { s.Action[0].Min, s.Action[0].Max = 1, 1+1e-12 }, "with min < max"},
		{"negative rate", func(s *hal.Spec) { s.Action[0].MaxRate = -1 }, "rate limit is negative"},
		{"NaN rate", func(s *hal.Spec) { s.Action[0].MaxRate = nan }, "rate limit is negative or not finite (NaN)"},
		{"failsafe outside", func(s *hal.Spec) { s.Action[1].Failsafe = 1.5 }, `("a1"): the failsafe value`},
		{"NaN scale of a measurement", func(s *hal.Spec) { s.Action[0].Measured.Scale = nan }, "measured: scale"},
		{"measured speed", func(s *hal.Spec) {
			s.Action[0].Unit, s.Action[0].Measured.Obs = "rad/s", "o0"
		}, `"rad/s" is not the unit of a position`},
		{"NaN failsafe", func(s *hal.Spec) { s.Action[1].Failsafe = nan }, "failsafe value is not within"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			spec := haltest.Spec(3, 2)
			c.harm(&spec)
			expectError(t, spec.Validate(), c.want)
		})
	}
}

func TestCheckAction_Limits(t *testing.T) {
	spec := haltest.Spec(1, 2)
	spec.Action[0].Max = 0.1 // float32(0.1) > 0.1
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	cases := []struct {
		action []float32
		want   string
	}{
		{[]float32{0, 0}, ""},
		{[]float32{0.1, -1}, ""},
		{[]float32{0}, "wrong length (1, want 2)"},
		{[]float32{0, 0, 0}, "wrong length (3, want 2)"},
		{[]float32{0.2, 0}, `"a0" is not within its limits (0.2, limits -1 to 0.1)`},
		{[]float32{0, nan}, `"a1" is not within its limits (NaN`},
		{[]float32{0, -inf}, `"a1" is not within its limits (-Inf`},
	}
	for _, c := range cases {
		expectError(t, spec.CheckAction(c.action), c.want)
	}
	good := []float32{0, 0}
	if n := testing.AllocsPerRun(100, func() { _ = spec.CheckAction(good) }); n != 0 {
		t.Errorf("CheckAction allocates %v times", n)
	}
}

func expectError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("unexpected error: %v", err)
	case want != "" && err == nil:
		t.Errorf("no error, want one with %q", want)
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("error %q lacks %q", err, want)
	}
}
