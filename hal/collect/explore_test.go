package collect

import (
	"math"
	"math/rand/v2"
	"testing"

	"optibfm/hal/haltest"
)

func TestExplorer_RhythmRepeatsWithOnePeriodForAllChannels(t *testing.T) {
	e := NewExplorer(haltest.Spec(1, 3).Action, rand.New(rand.NewPCG(1, 2)))
	for range 200 {
		e.BeginRhythm()
		period := 2 * math.Pi / e.turn
		if !(period >= minPeriod && period <= maxPeriod) {
			t.Fatalf("a period of %g ticks, want %g to %g", period, minPeriod, maxPeriod)
		}
		swings := append([]swing(nil), e.swings...)
		for tick := range 100 {
			for i, u := range e.Next() {
				s := swings[i]
				want := s.offset + s.amplitude*math.Sin(s.phase+2*math.Pi*float64(tick)/period)
				if want = math.Max(-1, math.Min(1, want)); math.Abs(u-want) > 1e-9 {
					t.Fatalf("tick %d, channel %d: %g, want %g", tick, i, u, want)
				}
			}
		}
	}
}
