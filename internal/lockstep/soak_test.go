package lockstep

import (
	"context"
	"io"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/terminal"
	"optibfm/rewardsrc/scripted"
)

// sampler is a display that looks at the memory.
type sampler struct {
	*terminal.LineDisplay
	memory *rigtest.Memory
}

func (s sampler) Tick(t *controller.Tick) {
	s.LineDisplay.Tick(t)
	s.memory.Sample(t.Index)
}

func TestLockstep_MemoryIsConstant(t *testing.T) {
	ticks := rigtest.SoakTicks()
	s := rigtest.NewSession(t, func(f *configs.File) {
		f.Run.Lockstep, f.Run.EpisodeS, f.Run.Episodes = true, 2, 0
		f.Run.DurationS = float64(ticks) * f.Loop.PeriodMS / 1e3
		f.Operator.Scripted.Mode = scripted.EveryTick // each label ends a chunk of the log
	})
	show := sampler{terminal.NewLineDisplay(io.Discard, terminal.ShowLines), rigtest.NewMemory(ticks)}
	o, err := Run(context.Background(), s, show)
	fatal.If(t, err)
	if o.Tally.Ticks != ticks || o.Tally.Applied < ticks/2 {
		t.Errorf("%d ticks of %d, %d labels", o.Tally.Ticks, ticks, o.Tally.Applied)
	}
	show.memory.CheckConstant(t)
}
