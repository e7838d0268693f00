package main

import (
	"fmt"
	"math"
	"runtime"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/tflite"
)

// periodSection is a plan as a run makes it: the configuration's strategy, on
// its backend and on all processors; and one with four times the candidates or
// gradient steps, which shows what each costs where there are many.
type periodSection struct {
	rows       []*timed
	plan, more *timed // more is nil where the strategy has neither
	size       int    // candidates or gradient steps of plan
	sizeMore   int
}

const moreTimes = 4

func (b *benchmark) openPeriod() error {
	cfg := b.planning(b.file.Controller.Strategy)
	model, err := b.planningModel()
	if err != nil {
		return err
	}
	if b.period.plan, err = b.newPlan("plan: "+cfg.Strategy, cfg, model); err != nil {
		return err
	}
	b.period.rows = []*timed{b.period.plan}
	larger, size := cfg, 0
	switch cfg.Strategy {
	case controller.UCB, controller.UCBSphere:
		size = cfg.Searched()
		larger.Candidates = min(moreTimes*size, 1<<16)
		b.period.sizeMore = larger.Candidates
	case controller.UCBGradient:
		size = cfg.Gradient.Steps
		larger.Gradient.Steps = min(moreTimes*size, 1000)
		b.period.sizeMore = larger.Gradient.Steps
	}
	b.period.size = size
	if size == 0 || b.period.sizeMore == size {
		return nil
	}
	name := fmt.Sprintf("plan: %s, %d", cfg.Strategy, b.period.sizeMore)
	if b.period.more, err = b.newPlan(name, larger, model); err != nil {
		return err
	}
	b.period.rows = append(b.period.rows, b.period.more)
	return nil
}

// planningModel is what a run would plan with.
func (b *benchmark) planningModel() (tflite.Model, error) {
	asked := b.native() == nil || b.file.Model.Backend == configs.BackendTensorFlow
	evaluates := b.file.Controller.Searched() > 0 || b.file.Controller.Strategy == controller.UCBGradient
	if asked && b.tf != nil && evaluates {
		return b.tf, nil
	}
	return b.network(runtime.GOMAXPROCS(0))
}

func (b *benchmark) newPlan(name string, cfg controller.Config, model tflite.Model) (*timed, error) {
	s, err := b.newBenchStep(cfg, model)
	if err != nil {
		return nil, err
	}
	return newTimed(name, func() error { return s.think(s.cases.next()) }), nil
}

// allowance is what a period allows on this machine, from the 99th percentiles
// of the tick and the plan.
type allowance struct {
	PeriodNS  float64 `json:"period_ns"`
	TickShare float64 `json:"tick_share"` // of the period
	MaxRateHz float64 `json:"max_rate_hz"`
	PlanNS    float64 `json:"plan_p99_ns"`

	// ZAgeMin is how many ticks after its state a plan acts first; ZAgeMax
	// is its age when the next one replaces it, 0 where nothing does.
	ZAgeMin uint64 `json:"z_age_min_ticks"`
	ZAgeMax uint64 `json:"z_age_max_ticks"`

	What string  `json:"what,omitempty"` // candidates or gradient steps
	Room []share `json:"room,omitempty"`
}

// share is how many candidates or gradient steps a plan of so many periods has.
type share struct {
	Periods int   `json:"periods"`
	Size    int64 `json:"size"`
}

// rateShare is the share of a period that a tick may take, at the highest rate
// that is reported: the rest is for what wakes late.
const rateShare = 0.5

func (b *benchmark) allowance() allowance {
	period, tick, plan := float64(b.file.Loop.Period()), b.control.tick.p99(), b.period.plan.p99()
	a := allowance{
		PeriodNS: period, TickShare: tick / period, MaxRateHz: rateShare * float64(time.Second) / tick, PlanNS: plan,
		ZAgeMin: uint64(max(math.Ceil((tick+float64(pollEvery)+plan)/period), 1)),
	}
	if every := b.file.Controller.Replan; every > 0 {
		a.ZAgeMax = a.ZAgeMin + max(every, a.ZAgeMin) - 1
	}
	if b.period.more == nil {
		return a
	}
	a.What = "candidates"
	if b.file.Controller.Strategy == controller.UCBGradient {
		a.What = "gradient steps"
	}
	each := b.period.more.p99() / float64(b.period.sizeMore)
	for _, k := range []int{1, 2, 5} {
		left := float64(k)*period - tick - float64(pollEvery)
		a.Room = append(a.Room, share{k, max(int64(left/each), 0)})
	}
	return a
}
