//go:build tensorflow

package control

import (
	"errors"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/rigtest"
	"optibfm/rewardsrc"
)

func TestAControlTickWithASavedModelAllocatesNothingOnGosHeap(t *testing.T) {
	for _, strategy := range []string{controller.UCB, controller.UCBSphere} {
		s := rigtest.NewSavedModelSession(t, func(f *configs.File) { f.Controller.Strategy = strategy })
		e := newTwoEnds(t, s)
		id := uint64(0)
		step := func() {
			id++
			if err := errors.Join(e.host.Push(rewardsrc.Label{ID: id, Tick: e.beats, Kind: rewardsrc.Value, Value: 0.5}), e.Tick()); err != nil {
				t.Fatal(err)
			}
		}
		for range 50 {
			step()
		}
		if !e.agent.Armed() {
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
