package controller

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"optibfm/internal/fatal"
	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// obliging answers every request at once with the first action.
func obliging(r *rig) func(rewardsrc.Request) {
	id := uint64(1 << 32)
	return func(q rewardsrc.Request) {
		if q.State == rewardsrc.Open {
			id++
			r.source.give(answer(id, q.ID, float64(r.robot.Output[0])))
		}
	}
}

// comparedTicks is the default compare_s in periods.
const comparedTicks = 100

// eventful records a run with answers, presses, undos, refused labels, skipped
// ticks, bad observations and a disarmed interval.
func eventful(t *testing.T) (Config, []*Tick) {
	t.Helper()
	r := newRig(t, func(c *Config) {
		c.Rho, c.Sigma, c.Strategy = 0.99, 0.7, Thompson
		c.Gate.BackoffS, c.Gate.TimeoutS, c.Gate.RequestsPerMinute = 0, 0.3, 0
		c.Guard.MaxBadTicks = 4
	})
	r.source.onAsk = func(q rewardsrc.Request) {
		if q.State == rewardsrc.Open && r.random.IntN(3) > 0 {
			r.source.give(answer(1e6+q.ID, q.ID, r.random.Float64()))
		}
	}
	var record []*Tick
	id := uint64(0)
	for i := range 1500 {
		r.robot.SenseErr = nil
		if r.random.IntN(20) == 0 {
			r.robot.SenseErr = errOut
		}
		label := press(id, int64(r.next)*int64(testPeriod), r.random.Float64())
		label.Weight = r.random.Float64()
		label.Kind = []rewardsrc.Kind{rewardsrc.Value, rewardsrc.Comparison, rewardsrc.Goal}[r.random.IntN(3)]
		switch r.random.IntN(12) {
		case 0:
			label.Kind, label.Weight = rewardsrc.Undo, 0
		case 1, 2, 3:
		case 4:
			label.Value = nan
		case 5:
			label.ID -= min(id, 3) // a repeated ID
		default:
			label.ID = 0
		}
		if label.ID != 0 {
			r.source.give(label)
		}
		id++
		if i == 600 {
			fatal.If(t, r.agent.Halt(FaultNone))
		}
		if i == 700 {
			r.arm()
		}
		skip := uint64(0)
		if r.random.IntN(30) == 0 {
			skip = r.random.Uint64N(7)
		}
		fatal.If(t, r.step(skip, 0))
		kept := NewTick(r.agent.Shape())
		kept.CopyFrom(r.tick)
		record = append(record, kept)
	}
	return r.cfg, record
}

func TestLearner_ReplayReproducesHashes(t *testing.T) {
	cfg, record := eventful(t)
	l, err := NewLearner(cfg, rigLatent, testPeriod)
	fatal.If(t, err)
	outcomes := map[Outcome]int{}
	for _, tick := range record {
		if tick.Flags.Has(FlagArmed) {
			l.Advance(tick.Elapsed)
		}
		if !tick.Flags.Has(FlagBadObs) {
			l.Observe(tick.Index, tick.SenseAt, tick.Phi, nil)
		}
		for _, logged := range tick.Labels[:tick.NumLabels] {
			outcomes[logged.Outcome]++
			own, err := l.Reapply(logged)
			if err != nil || (own != logged && logged.Outcome != BadLabel) { // a NaN differs from itself
				t.Fatalf("tick %d: %+v, %v, want %+v", tick.Index, own, err, logged)
			}
		}
		if l.Belief().Hash() != tick.Hash || l.Belief().LogDet() != tick.LogDet {
			t.Fatalf("tick %d: another hash", tick.Index)
		}
	}
	for _, o := range []Outcome{Applied, BadLabel, Duplicate} {
		if outcomes[o] < 10 {
			t.Errorf("%v: %d times only: too few for this test", o, outcomes[o])
		}
	}
}

// TestPosterior_ReproducesHashesFromRecord uses only the record: φ, credited
// ticks, values and weights.
func TestPosterior_ReproducesHashesFromRecord(t *testing.T) {
	cfg, record := eventful(t)
	belief, err := posterior.New(rigLatent, cfg.Lambda, cfg.Rho)
	fatal.If(t, err)
	type given struct {
		phi   []float64
		value float64
	}
	labels := map[uint64]given{}
	for _, tick := range record {
		if tick.Flags.Has(FlagArmed) {
			for range tick.Elapsed {
				belief.Forget()
			}
		}
		for _, a := range tick.Labels[:tick.NumLabels] {
			if a.Outcome != Applied {
				continue
			}
			if a.Kind == rewardsrc.Undo {
				err = belief.Downdate(labels[a.Undoes].phi, labels[a.Undoes].value, a.Weight)
			} else {
				phi := meanOf(record, a.From, a.To)
				if a.Kind == rewardsrc.Comparison {
					floats.Sub(phi, meanOf(record, a.From-comparedTicks, a.To-comparedTicks))
				}
				labels[a.ID] = given{phi, a.Value}
				err = belief.Update(labels[a.ID].phi, a.Value, a.Weight)
			}
			fatal.If(t, err)
		}
		if belief.Hash() != tick.Hash {
			t.Fatalf("tick %d: another hash", tick.Index)
		}
	}
}

// meanOf is the triangular mean of the features of the ticks from..to, with
// the order of the sums that the hash depends on.
func meanOf(record []*Tick, from, to uint64) []float64 {
	sum, total := make([]float64, rigLatent), 0.0
	for _, tick := range record {
		if tick.Index < from || tick.Index > to || tick.Flags.Has(FlagBadObs) {
			continue
		}
		w := float64(1 + min(tick.Index-from, to-tick.Index))
		total += w
		for i, x := range tick.Phi {
			sum[i] += float64(w * x)
		}
	}
	for i := range sum {
		sum[i] /= total
	}
	return sum
}

func TestLearner_HashIsTheSameOnEveryCPU(t *testing.T) {
	l, _ := newTestLearner(t, func(c *Config) { c.Rho, c.Sigma = 0.993, 0.7 })
	random := rand.New(rand.NewPCG(1, 2)) // Float64 is exact; NormFloat64 is not the same everywhere
	phi := make([]float64, rigLatent)
	for tick := range uint64(3000) {
		for i := range phi {
			phi[i] = random.Float64() - 0.5
		}
		l.Advance(1 + tick%3)
		l.Observe(tick, int64(tick)*int64(testPeriod), phi, nil)
		label := press(tick+1, int64(tick)*int64(testPeriod), random.Float64())
		label.Weight = 1 - random.Float64()
		l.Apply(label, 0)
		if tick%5 == 4 {
			l.Apply(rewardsrc.Label{ID: 1e6 + tick, Kind: rewardsrc.Undo, Undoes: tick - 1}, 0)
		}
	}
	if got, want := l.Belief().Hash(), uint64(0x2897c191aded0029); got != want {
		t.Errorf("hash %#x, want %#x", got, want)
	}
}
