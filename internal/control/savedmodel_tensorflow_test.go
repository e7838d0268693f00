//go:build tensorflow

package control

import (
	"errors"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/rewardsrc"
)

func TestControl_TickWithASavedModelAllocatesNothing(t *testing.T) {
	for _, strategy := range []string{controller.UCB, controller.UCBSphere} {
		s := rigtest.NewSavedModelSession(t, func(f *configs.File) { f.Controller.Strategy = strategy })
		r := newRun(t, s, nil)
		id := uint64(0)
		step := func() {
			id++
			label := rewardsrc.Label{ID: id, Tick: r.beats, Kind: rewardsrc.Value, Value: 0.5}
			fatal.If(t, errors.Join(r.host.Push(label), r.Tick()))
		}
		for range 50 {
			step()
		}
		if !r.agent.Armed() {
			t.Fatal("the robot was never armed")
		}
		if n := testing.AllocsPerRun(1, func() {
			for range 200 {
				step()
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations in 200 ticks", strategy, n)
		}
	}
}
