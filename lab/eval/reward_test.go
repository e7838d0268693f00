package eval

import (
	"errors"
	"math"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/episodes/oracle"
	"optibfm/internal/fatal"
	"optibfm/tflite"
)

func TestReward_MatchesToleranceOfDmControl(t *testing.T) {
	channels := []tflite.Channel{{Name: "height"}, {Name: "speed"}}
	r := Reward{Task: "high", Factors: []Factor{
		{Channel: "speed", Range: []float64{1, 2}, Margin: 0.5},
		{Channel: "height", Range: []float64{-9, 0}, Margin: 2},
	}}
	at, err := r.on(channels)
	fatal.If(t, err)
	// dm_control.utils.rewards.tolerance with sigmoid="gaussian" and value_at_margin=0.1.
	for obs, want := range map[[2]float32]float64{
		{-1, 1.5}: 1, {0, 2}: 1, {-1, 0.5}: 0.1, {2, 1}: 0.1, {1, 2.25}: 0.31622776601683794,
	} {
		if got := at(obs[:]); math.Abs(got-want) > 1e-12 {
			t.Errorf("reward of %v is %g, want %g", obs, got, want)
		}
	}
	s := &oracle.States{Obs: []float32{0, 1, 2, 1}, Reward: []float64{7, 8}}
	labelled, err := r.label(s, channels)
	if err != nil || math.Abs(labelled.Reward[1]-0.1) > 1e-12 || s.Reward[1] != 8 {
		t.Errorf("labelled %v, %v; the former rewards are %v", labelled, err, s.Reward)
	}
	if _, err := r.on(channels[:1]); err == nil {
		t.Error("a robot without the channel is accepted")
	}
}

func TestParse_ReportsMistakesInRewards(t *testing.T) {
	valid := strings.Replace(tiny, "tasks: [spin, corner]", `tasks: [spin, high]
    rewards: [{task: high, factors: [{channel: x, range: [1, 2], margin: 1}]}]`, 1)
	parsed(t, valid)
	for name, c := range map[string]struct{ change, to, want string }{
		"unused":  {"[spin, high]", "[spin]", "add it to tasks"},
		"taken":   {"{task: high", "{task: spin", "is taken"},
		"twice":   {"rewards: [", "rewards: [{task: high, factors: [{channel: y, range: [1, 2], margin: 1}]}, ", "is taken"},
		"factors": {"[{channel: x, range: [1, 2], margin: 1}]", "[]", "at least one"},
		"channel": {"channel: x", "channel: ''", "name of a channel"},
		"order":   {"[1, 2]", "[2, 1]", "in this order"},
		"length":  {"[1, 2]", "[1]", "[low, high]"},
		"margin":  {"margin: 1", "margin: 0", "above 0"},
	} {
		text := strings.Replace(valid, c.change, c.to, 1)
		_, err := Parse("p.yaml", []byte(text))
		var mistake *configs.Error
		if text == valid || !errors.As(err, &mistake) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is\n%v\nwant something of %q", name, err, c.want)
		}
	}
}

func TestRunner_RunsTasksWithRewardsOfTheirOwn(t *testing.T) {
	p := parsed(t, `
version: 1
experiment: own
run: {trials: 2, episodes: 2, episode_steps: 100}
environments:
  - name: rover
    tasks: [far_east]
    rewards: [{task: far_east, factors: [{channel: x, range: [0.5, 10], margin: 0.5}]}]
    models: [{bundle: "embedded:rover"}]
methods: [{name: oracle}, {name: random}]
`[1:])
	returns := lastReturns(t, p)
	if !(returns["oracle "] > returns["random "]+20 && returns["oracle "] <= 100) {
		t.Errorf("returns %v: the oracle is not better, or a reward is not in [0, 1]", returns)
	}
}

func TestRunner_ChangesTheTaskInTheMiddle(t *testing.T) {
	text := `
version: 1
experiment: change
run: {trials: 2, episodes: 4, episode_steps: 100}
environments: [{name: rover, tasks: [spin], becomes: spin_right, models: [{bundle: "embedded:rover"}]}]
methods: [{name: oracle}]
`[1:]
	p := parsed(t, text)
	last := lastReturns(t, p)["oracle "] // of the z that spins to the left
	p.Environments[0].Becomes = ""
	if unchanged := lastReturns(t, p)["oracle "]; !(unchanged > 50 && last < -unchanged/2) {
		t.Errorf("the last return is %g, without a change %g", last, unchanged)
	}
	_, err := Parse("p.yaml", []byte(strings.Replace(text, "spin_right", "jump", 1)))
	if err == nil || !strings.Contains(err.Error(), "define it in rewards") {
		t.Errorf("an unknown task: %v", err)
	}
	_, err = Parse("p.yaml", []byte(strings.Replace(text, "trials: 2", "trials: 2, diagnose_every: 5", 1)))
	if err == nil || !strings.Contains(err.Error(), "excludes run.diagnose_every") {
		t.Errorf("a diagnosis of two tasks: %v", err)
	}
}
