package controller

import (
	"errors"
	"testing"

	"optibfm/internal/fatal"
)

// newHoldRig returns an agent whose robot stands still while it asks. Its requests are open for ten
// ticks and pause for ten.
func newHoldRig(t *testing.T, hold string, change func(*Config)) *rig {
	t.Helper()
	r := newRig(t, func(c *Config) {
		c.Gate.Pause, c.Gate.TimeoutS, c.Gate.BackoffS, c.Gate.BackoffMaxS = "", 0.2, 0.2, 0.2
		c.Gate.RequestsPerMinute = 0
		if change != nil {
			change(c)
		}
	})
	r.cfg.Gate.Pause, r.hold = PauseHold, hold
	r.build(r.robot)
	r.arm()
	return r
}

func TestAgent_HoldsWhileARequestIsOpen(t *testing.T) {
	for _, hold := range Holds() {
		t.Run(hold, func(t *testing.T) {
			r := newHoldRig(t, hold, nil)
			held, moved := 0, 0
			var asked float32 // the action of the tick of the request
			for range 200 {
				open := r.agent.gate.OpenRequest() != 0
				r.steps(1)
				holds := r.tick.Flags.Has(FlagHeld)
				if want := open && !r.tick.Flags.Has(FlagRequestClosed); holds != want {
					t.Fatalf("tick %d: held %v, want %v", r.tick.Index, holds, want)
				}
				if r.robot.Output[0] != r.tick.Action[0] {
					t.Fatalf("tick %d: the robot got another action", r.tick.Index)
				}
				switch {
				case !holds:
					moved++
					asked = r.tick.Action[0]
				case hold == HoldLast && r.tick.Action[0] != asked:
					t.Fatalf("tick %d: action %g, want the last one, %g", r.tick.Index, r.tick.Action[0], asked)
				case hold == HoldFailsafe && r.tick.Action[0] != float32(r.robot.Spec().Action[0].Failsafe):
					t.Fatalf("tick %d: action %g, want the failsafe output", r.tick.Index, r.tick.Action[0])
				}
				if holds {
					held++
				}
			}
			if held < 80 || moved < 80 {
				t.Errorf("%d ticks held, %d moved; the time-out bounds each hold", held, moved)
			}
		})
	}
}

func TestExplorer_DoesNotTurnWhileHeld(t *testing.T) {
	r := newHoldRig(t, HoldFailsafe, func(c *Config) { c.Strategy, c.Explore.TurnDegPerS = Random, 90 })
	last := make([]float64, rigLatent)
	turned, held := 0, 0
	for range 200 {
		r.steps(1)
		turn := AngleDeg(last, r.tick.Z)
		switch holds := r.tick.Flags.Has(FlagHeld); {
		case holds && turn > 1e-6:
			t.Fatalf("tick %d: held, and z turned by %g°", r.tick.Index, turn)
		case holds:
			held++
		case turn > 1:
			turned++
		}
		copy(last, r.tick.Z)
	}
	if held < 50 || turned < 50 {
		t.Errorf("%d ticks held, %d with a turn: too few for this test", held, turned)
	}
}

func TestGuard_HoldKeepsRateLimit(t *testing.T) {
	g := newGuard(GuardConfig{}, limitedSpec(), false)
	g.sent([]float32{0.7, 6, 0})
	action := make([]float32, 3)
	if limited := g.hold(action, HoldFailsafe); !limited || !(action[0] < 0.7 && action[0] > 0.6) || action[1] != 5.5 {
		t.Errorf("first held action %v, limited %v: want a step towards the failsafe output", action, limited)
	}
	limited := true
	for range 100 {
		g.sent(action)
		limited = g.hold(action, HoldFailsafe)
	}
	if limited || action[0] != 0.1 {
		t.Errorf("held action %v, limited %v", action, limited)
	}
}

func TestAgent_HeldStatesTeachNothing(t *testing.T) {
	for _, answers := range AnswerMoments() {
		t.Run(answers, func(t *testing.T) {
			r := newHoldRig(t, HoldFailsafe, func(c *Config) {
				c.Credit.Answers, c.Credit.DelayS, c.Credit.WidthS = answers, 0, 0.1
			})
			var record []*Tick
			id, asked := uint64(0), uint64(0)
			for i := range 600 {
				r.steps(1)
				if r.tick.Flags.Has(FlagAsked) {
					asked = r.tick.Index
				}
				kept := NewTick(r.agent.Shape())
				kept.CopyFrom(r.tick)
				record = append(record, kept)
				for _, l := range r.tick.Labels[:r.tick.NumLabels] {
					if l.Outcome != Applied {
						continue
					}
					if l.Request != 0 && (l.To != asked || l.From != asked && answers != AtClip) {
						t.Fatalf("answer about %d to %d, want tick %d", l.From, l.To, asked)
					}
					for _, tick := range record {
						if (tick.Index == l.From || tick.Index == l.To) && tick.Flags.Has(FlagHeld) {
							t.Fatalf("label %d is about the held tick %d", l.ID, tick.Index)
						}
					}
				}
				if !r.tick.Flags.Has(FlagHeld) || i%3 > 0 {
					continue
				}
				id++
				label := press(id, r.tick.SenseAt, 1)
				if i%2 == 0 {
					label = answer(id, r.agent.gate.OpenRequest(), 1)
					label.At = r.tick.SenseAt
				}
				r.source.give(label)
			}
			replayHeld(t, r.cfg, record)
		})
	}
}

// replayHeld computes the belief of a record again, as flightlog does.
func replayHeld(t *testing.T, cfg Config, record []*Tick) {
	t.Helper()
	l, err := NewLearner(cfg, rigLatent, testPeriod)
	fatal.If(t, err)
	applied := 0
	for _, tick := range record {
		if tick.Flags.Has(FlagArmed) {
			l.Advance(tick.Elapsed)
		}
		if !tick.Flags.Has(FlagHeld) {
			l.Observe(tick.Index, tick.SenseAt, tick.Phi, nil)
		}
		for _, logged := range tick.Labels[:tick.NumLabels] {
			if own, err := l.Reapply(logged); err != nil || own != logged {
				t.Fatalf("tick %d: %+v, %v, want %+v", tick.Index, own, err, logged)
			}
			if logged.Outcome == Applied {
				applied++
			}
		}
		if l.Belief().Hash() != tick.Hash {
			t.Fatalf("tick %d: another hash", tick.Index)
		}
	}
	if applied < 20 {
		t.Errorf("%d labels applied: too few for this test", applied)
	}
}

func TestNewAgent_RefusesAPauseWithoutAHold(t *testing.T) {
	r := newRig(t, nil)
	cfg := r.cfg
	cfg.Gate.Pause = PauseHold
	_, err := NewAgent(cfg, Parts{Robot: r.robot, Source: r.source, Model: r.model, Plans: r.plans})
	if !errors.Is(err, ErrConfig) {
		t.Errorf("got %v", err)
	}
	cfg.Gate.BackoffS = 0
	if err := cfg.Validate(0); !errors.Is(err, ErrConfig) {
		t.Errorf("without backoff_s: %v", err)
	}
}
