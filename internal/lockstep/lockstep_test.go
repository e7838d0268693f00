package lockstep

import (
	"context"
	"math"
	"slices"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/recorder"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/internal/terminal"
	"optibfm/rewardsrc/scripted"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// lockstepFile runs a short session in lockstep and returns its returns and
// its log.
func lockstepRunOf(t *testing.T, change func(*configs.File)) (recorder.Outcome, *flightlog.Reader) {
	t.Helper()
	s := rigtest.NewSession(t, func(f *configs.File) {
		f.Run.Lockstep, f.Run.DurationS, f.Run.EpisodeS, f.Run.Episodes = true, 0, 2, 3
		if change != nil {
			change(f)
		}
	})
	o, err := Run(context.Background(), s, terminal.QuietDisplay{})
	fatal.If(t, err)
	r, err := flightlog.Open(o.LogPath)
	fatal.If(t, err)
	t.Cleanup(func() { r.Close() })
	return o, r
}

func TestRun_IsAFunctionOfItsConfiguration(t *testing.T) {
	first, a := lockstepRunOf(t, nil)
	second, b := lockstepRunOf(t, nil)
	if !slices.Equal(first.Tally.Returns, second.Tally.Returns) {
		t.Errorf("returns %v and %v", first.Tally.Returns, second.Tally.Returns)
	}
	if !slices.Equal(rigtest.BeliefHashes(t, a), rigtest.BeliefHashes(t, b)) {
		t.Error("the beliefs differ")
	}
	_, other := lockstepRunOf(t, func(f *configs.File) { f.Controller.Seed = 7 })
	if slices.Equal(rigtest.BeliefHashes(t, a), rigtest.BeliefHashes(t, other)) {
		t.Error("another seed gives the same run")
	}
}

func TestRun_ReplaysWithEveryScriptedOperator(t *testing.T) {
	operators := map[string]func(*scripted.Config){
		"every tick": func(*scripted.Config) {},
		"asked, late, with mistakes": func(c *scripted.Config) {
			c.Mode, c.DelayS, c.MistakeProbability = scripted.WhenAsked, 0.3, 0.2
		},
		"unasked, late, not knowing when": func(c *scripted.Config) { c.DelayS, c.Blind = 0.4, true },
	}
	for name, change := range operators {
		t.Run(name, func(t *testing.T) {
			o, r := lockstepRunOf(t, func(f *configs.File) { change(&f.Operator.Scripted); f.Controller.Rho = 0.999 })
			if o.Tally.Applied == 0 {
				t.Fatal("0 labels applied")
			}
			result, err := flightlog.Verify(r)
			fatal.If(t, err)
			if !result.OK() {
				t.Errorf("replay differs: %+v", result)
			}
		})
	}
}

func TestRun_ReturnIsTheSumOfRewards(t *testing.T) {
	o, r := lockstepRunOf(t, nil)
	sums := make([]float64, 3)
	steps := make([]int, 3)
	for record, err := range r.Records() {
		fatal.If(t, err)
		if k := record.Tick; k != nil && k.Step > 0 {
			sums[k.Episode] += k.Reward
			steps[k.Episode]++
		}
	}
	for i, sum := range sums {
		if steps[i] != 40 || math.Abs(sum-o.Tally.Returns[i]) > 1e-9 {
			t.Errorf("episode %d: %d steps, sum %v, return %v", i, steps[i], sum, o.Tally.Returns[i])
		}
	}
}

func TestRun_LogTimesIncrease(t *testing.T) {
	_, r := lockstepRunOf(t, nil)
	last := int64(-1)
	for record, err := range r.Records() {
		fatal.If(t, err)
		if k := record.Tick; k != nil {
			if k.SenseAt < last {
				t.Fatalf("tick %d: sensed at %d, the one before at %d", k.Index, k.SenseAt, last)
			}
			last = k.SenseAt
		}
	}
}

func TestRun_TwoRunsInOneSecondHaveTwoLogs(t *testing.T) {
	s := rigtest.NewSession(t, func(f *configs.File) {
		f.Run.Lockstep, f.Run.DurationS, f.Run.EpisodeS, f.Run.Episodes = true, 0, 1, 1
	})
	seen := map[string]bool{}
	for range 3 {
		o, err := Run(context.Background(), s, terminal.QuietDisplay{})
		fatal.If(t, err)
		seen[o.LogPath] = true
	}
	if len(seen) != 3 {
		t.Errorf("logs: %v", seen)
	}
}

func TestRun_ReplaysAndBoundsHeldTicks(t *testing.T) {
	for _, delay := range []float64{0.3, 30} { // an operator who answers, and one who never does in time
		o, r := lockstepRunOf(t, func(f *configs.File) {
			f.Operator.Scripted.Mode, f.Operator.Scripted.DelayS = scripted.WhenAsked, delay
			f.Run.EpisodeS = 20
			g := &f.Controller.Gate
			g.Pause, g.TimeoutS, g.BackoffS, g.RequestsPerMinute = controller.PauseHold, 0.5, 0.5, 0
		})
		result, err := flightlog.Verify(r)
		if err != nil || !result.OK() {
			t.Fatalf("replay differs: %+v, %v", result, err)
		}
		held, longest, total := 0, 0, 0
		for record, err := range r.Records() {
			fatal.If(t, err)
			k := record.Tick
			if k == nil {
				continue
			}
			if !k.Flags.Has(controller.FlagHeld) {
				held = 0
				continue
			}
			held++
			total++
			longest = max(longest, held)
			if !k.Flags.Has(controller.FlagEpisodeEnd) && (k.Action[0] != 0 || k.Action[1] != 0) {
				t.Fatalf("tick %d: held with the action %v", k.Index, k.Action)
			}
		}
		if total < 20 || longest >= 10 { // 0.5 s
			t.Errorf("delay %g s: %d ticks held, at most %d in turn", delay, total, longest)
		}
		if (o.Tally.Applied > 0) != (delay < 1) {
			t.Errorf("delay %g s: %d labels", delay, o.Tally.Applied)
		}
	}
}

// The log has the whole observation: the readings and what the agent assembled of earlier ones.
func TestRun_RecordsAssembledObservations(t *testing.T) {
	m := tflitetest.Manifest(tflite.Dims{Obs: 14, Action: 2, Latent: 8, Ensemble: 2})
	a := &m.Architecture
	a.Groups = []tflite.Group{
		{Name: "state", Size: 6, NormObs: true}, {Name: "last_action", Size: 2}, {Name: "history", Size: 6},
	}
	a.F.Residual, a.F.Inputs = true, []string{"state", "last_action", "history"}
	a.Actor.Residual, a.Actor.Inputs, a.B.Inputs = true, []string{"history", "last_action"}, []string{"state"}
	bundle, err := tflite.New(m, tflitetest.Tensors(*a, 1))
	fatal.If(t, err)
	s := rigtest.NewSession(t, func(f *configs.File) {
		f.Run.Lockstep, f.Run.DurationS, f.Run.EpisodeS, f.Run.Episodes = true, 0, 2, 2
		f.Model.Groups = []controller.Group{
			{Name: "state", Terms: []controller.Term{{Channels: []string{"*"}}}},
			{Name: "last_action", Terms: []controller.Term{{LastAction: true}}},
			{Name: "history", Terms: []controller.Term{
				{LastAction: true, Steps: 2}, {Channels: []string{"speed"}, Steps: 2, Scale: 0.5}}},
		}
	})
	s.Model = setup.NativeModel{Bundle: bundle}
	o, err := Run(context.Background(), s, terminal.QuietDisplay{})
	fatal.If(t, err)
	r, err := flightlog.Open(o.LogPath)
	fatal.If(t, err)
	defer r.Close()
	if name := r.Metadata().Robot.Obs[12].Name; name != "history.speed@-0" {
		t.Errorf("element 12 is %q", name)
	}
	n, err := bundle.NewNetwork()
	fatal.If(t, err)
	before, phi, ticks := make([]float32, 14), make([]float64, 8), 0
	for record, err := range r.Records() {
		fatal.If(t, err)
		k := record.Tick
		if k == nil {
			continue
		}
		ticks++
		if k.Step == 0 {
			clear(before)
		}
		want := slices.Concat(k.Obs[6:8], before[6:8], []float32{k.Obs[4] / 2, before[4] / 2})
		if !slices.Equal(k.Obs[8:], want) {
			t.Fatalf("tick %d: history %v, want %v", k.Index, k.Obs[8:], want)
		}
		if err := n.Phi(phi, k.Obs); err != nil || !slices.Equal(phi, k.Phi) {
			t.Fatalf("tick %d: φ differs (%v)", k.Index, err)
		}
		copy(before, k.Obs)
	}
	if result, err := flightlog.Verify(r); err != nil || !result.OK() || ticks < 80 {
		t.Errorf("replay of %d ticks: %+v, %v", ticks, result, err)
	}
}

func TestNew_RefusesGroupsThatDoNotMatchTheModel(t *testing.T) {
	s := rigtest.NewSession(t, func(f *configs.File) {
		f.Run.Lockstep, f.Run.DurationS = true, 0
		f.Model.Groups = []controller.Group{{Name: "state"}}
	})
	errtest.Contains(t, errtest.Of(Run(context.Background(), s, terminal.QuietDisplay{})), "model.groups")
}
