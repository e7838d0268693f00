package controller

import (
	"testing"

	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
)

// quiet is a source that allocates nothing: it answers every request at once and
// adds unasked labels, undos and invalid labels.
type quiet struct {
	open   uint64
	lastID uint64
	at     int64
	labels uint64
}

func (q *quiet) Watch(_ uint64, at int64, _ float64, _ bool) { q.at = at }

func (q *quiet) Ask(r rewardsrc.Request) {
	q.open = 0
	if r.State == rewardsrc.Open {
		q.open = r.ID
	}
}

func (q *quiet) Poll(dst []rewardsrc.Label) (n int) {
	give := func(l rewardsrc.Label) {
		q.lastID++
		l.ID, l.At = q.lastID, q.at
		dst[n] = l
		n++
	}
	if q.open != 0 {
		give(answer(0, q.open, 0.5))
	}
	switch q.lastID % 4 {
	case 0:
		give(rewardsrc.Label{Kind: rewardsrc.Undo})
		give(rewardsrc.Label{Kind: rewardsrc.CantTell})
	case 1:
		give(rewardsrc.Label{Kind: rewardsrc.Value, Tick: rewardsrc.NoTick, Value: 0.3, Weight: 0.5})
	case 2:
		give(rewardsrc.Label{Kind: rewardsrc.Value, Tick: rewardsrc.NoTick, Value: nan})
	default:
		give(rewardsrc.Label{Kind: rewardsrc.Value, Tick: 1 << 40})
	}
	q.labels += uint64(n)
	return n
}

func (q *quiet) Halt() error { return nil }

func TestAgent_StepAllocatesNothing(t *testing.T) {
	for _, strategy := range Strategies() {
		for _, off := range []bool{false, true} {
			r := newRig(t, func(c *Config) {
				c.Strategy, c.FixedZ, c.Rho, c.Gate.Off = strategy, []float64{1, 2, 3, 4}, 0.99, off
				if off {
					c.Explore = ExploreConfig{Tasks: []string{"a", "b"}, Vetted: axes[:2], UntilLabel: true}
					c.Explore.WithinDeg, c.Explore.TurnDegPerS = 50, 90
				} else {
					c.Credit.Answers = Estimated
					c.Offset, c.Noise = 0.7, NoiseConfig{Estimate: true, Freedom: 1.5}
					c.Draw = DrawConfig{Scale: 1, Held: 0.4, Ticks: 3, Dither: 0.1}
					c.Prior = TaskPrior
					c.Basis = testBasis(t, rigLatent, 3)
				}
				c.Gate.BackoffS, c.Gate.RequestsPerMinute, c.Gate.TimeoutS = 0, 0, 0.04
			})
			source := &quiet{}
			agent, err := NewAgent(r.cfg, Parts{Robot: r.robot, Source: source, Model: r.model, Plans: r.plans})
			fatal.If(t, err)
			r.agent = agent
			r.arm()
			r.steps(10)
			ticks := 0
			n := testing.AllocsPerRun(500, func() {
				ticks++
				r.robot.SenseErr = nil
				if ticks%7 == 0 {
					r.robot.SenseErr = errOut
				}
				fatal.If(t, r.step(uint64(ticks%3), 0))
			})
			if n != 0 {
				t.Errorf("%s, gate off %v: %v allocations a tick", strategy, off, n)
			}
			if source.labels < 500 {
				t.Errorf("%s: only %d labels", strategy, source.labels)
			}
		}
	}
}

func TestAgent_StepAllocatesNothingWhenStopped(t *testing.T) {
	r, robot := newStoppableRig(t, Safety{
		Limits:       []StopLimit{{Channel: "o0", Min: -2, Max: 2}},
		MaxSampleAge: 2 * testPeriod, FrozenTicks: 5, FrozenChannels: []string{"o1"},
	})
	r.arm()
	r.steps(10)
	robot.Pressed = true
	r.fails(FaultEStop)
	robot.HaltErr = errOut
	if err := r.agent.Halt(FaultAct); err == nil { // each tick repeats it
		t.Fatal("Halt succeeded")
	}
	ticks := 0
	robot.Observe = func(_ int, obs []float32) error {
		obs[0] = float32(ticks % 7) // sometimes beyond the limit
		return nil
	}
	n := testing.AllocsPerRun(500, func() {
		ticks++
		fatal.If(t, r.step(uint64(ticks%3), 0))
	})
	if n != 0 {
		t.Errorf("%v allocations a tick", n)
	}
}
