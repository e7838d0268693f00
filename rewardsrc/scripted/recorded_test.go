package scripted

import (
	"encoding/csv"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
)

// recordedRuns are the runs of testdata/labels.csv. Its labels were recorded before the operator
// had reactions, a memory, a drifting zero, a bias or fatigue; those of the last run with a wrapper
// that added 0.2 to each label.
var recordedRuns = []Config{
	{Mode: EveryTick, DelayS: 0.3, Blind: true, IntervalS: 0.5, RewardHigh: 1, NoiseStd: 0.1, Seed: 3},
	{
		Mode: EveryTick, MistakeProbability: 0.3, RewardHigh: 1, IntervalS: 0.4,
		Absence: Absence{AwayS: 2, EveryS: 5}, Seed: 7,
	},
	{
		Mode: WhenAsked, DelayS: 0.3, MistakeProbability: 0.2, NoiseStd: 0.1, Levels: 5, RewardLow: -1, RewardHigh: 1,
		Absence: Absence{AwayS: 1, EveryS: 4}, Seed: 9,
	},
	{Mode: WhenAsked, MistakeProbability: 0.1, Levels: 5, Bias: 0.2, RewardHigh: 1, Seed: 11},
}

// askOften opens a request every 20 ticks, about the tick before.
func askOften(tick uint64) []rewardsrc.Request {
	if tick%20 != 5 {
		return nil
	}
	return []rewardsrc.Request{openRequest(1+tick/20, tick-1)}
}

func TestOperator_RepeatsRecordedLabels(t *testing.T) {
	var got [][]string
	for i, cfg := range recordedRuns {
		labels, came := run(t, cfg, 1200, ramp, askOften)
		for k, l := range labels {
			u := func(x uint64) string { return strconv.FormatUint(x, 10) }
			got = append(got, []string{
				strconv.Itoa(i), u(came[k]), u(uint64(l.Kind)), u(l.Request), u(l.Tick), u(uint64(l.At)),
				strconv.FormatUint(math.Float64bits(l.Value), 16),
			})
		}
	}
	f, err := os.Open("testdata/labels.csv")
	fatal.If(t, err)
	defer f.Close()
	want, err := csv.NewReader(f).ReadAll()
	fatal.If(t, err)
	want = want[1:] // the header
	if len(got) != len(want) {
		t.Fatalf("%d labels, %d were recorded", len(got), len(want))
	}
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Fatalf("label %d is %v, recorded %v", i, got[i], want[i])
		}
	}
}
