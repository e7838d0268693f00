package main

import (
	"fmt"
	"time"

	"optibfm/controller"
	"optibfm/hal"
	"optibfm/rewardsrc"
	"optibfm/tflite"
)

// stubRobot senses and acts at the cost of a copy.
type stubRobot struct {
	spec  hal.Spec
	cases *benchCases
}

func newStubRobot(d tflite.Dims, period time.Duration, cases *benchCases) *stubRobot {
	spec := hal.Spec{Name: "bench", Period: period}
	for i := range d.Obs {
		spec.Obs = append(spec.Obs, hal.Channel{Name: fmt.Sprintf("o%d", i)})
	}
	for i := range d.Action {
		spec.Action = append(spec.Action, hal.Channel{Name: fmt.Sprintf("a%d", i), Min: -1, Max: 1})
	}
	return &stubRobot{spec, cases}
}

func (r *stubRobot) Spec() hal.Spec                     { return r.spec }
func (r *stubRobot) Sense(obs []float32) (int64, error) { copy(obs, r.cases.next()); return 0, nil }
func (r *stubRobot) Act([]float32) error                { return nil }
func (r *stubRobot) Arm() error                         { return nil }
func (r *stubRobot) Halt() error                        { return nil }

// stubSource labels every tick.
type stubSource struct{ id uint64 }

func (s *stubSource) Ask(r rewardsrc.Request) {}
func (s *stubSource) Halt() error             { return nil }
func (s *stubSource) Poll(dst []rewardsrc.Label) int {
	s.id++
	dst[0] = rewardsrc.Label{ID: s.id, Tick: s.id, Kind: rewardsrc.Value, Value: 0.5}
	return 1
}

// stubPlans confirms one plan for ever.
type stubPlans struct {
	state *controller.State
	plan  *controller.Plan
}

func newStubPlans(s controller.Shape) *stubPlans {
	p := &stubPlans{state: controller.NewState(s), plan: controller.NewPlan(s)}
	for i := range p.plan.Z {
		p.plan.Z[i] = 1
	}
	return p
}

func (p *stubPlans) State() *controller.State { return p.state }
func (p *stubPlans) Offer() error             { p.plan.Confirmed = p.state.Tick(); return nil }
func (p *stubPlans) Latest() *controller.Plan { return p.plan }

// stubModel costs nothing.
type stubModel struct{ dims tflite.Dims }

func (m stubModel) Dims() tflite.Dims { return m.dims }
func (m stubModel) Phi(dst []float64, obs []float32) error {
	for i := range dst {
		dst[i] = 0.1
	}
	return nil
}
func (m stubModel) Act(dst, obs []float32, z []float64) error { clear(dst); return nil }
func (m stubModel) Search(obs, candidates []float32, belief tflite.Belief) (int, float32, error) {
	return 0, 0, nil
}
