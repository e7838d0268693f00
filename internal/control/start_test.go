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

// pressed is a source with presses, which counts the refused ones.
type pressed struct {
	waiting []rewardsrc.Label
	refused []error
}

func (p *pressed) Ask(rewardsrc.Request) {}
func (p *pressed) Halt() error           { return nil }

func (p *pressed) Poll(dst []rewardsrc.Label) int {
	n := copy(dst, p.waiting)
	p.waiting = p.waiting[n:]
	return n
}

func (p *pressed) Acknowledge(rewardsrc.Label)            {}
func (p *pressed) Refuse(_ rewardsrc.Label, reason error) { p.refused = append(p.refused, reason) }
func (p *pressed) press()                                 { p.waiting = append(p.waiting, good()) }
func good() rewardsrc.Label {
	return rewardsrc.Label{Tick: rewardsrc.NoTick, At: rewardsrc.Monotonic(), Value: 1, Kind: rewardsrc.Value}
}

func TestRun_SimulatorStartsWithTheFirstPress(t *testing.T) {
	r := newRun(t, rigtest.NewSession(t, func(f *configs.File) {
		f.Operator.Source, f.Run.EpisodeS, f.Run.DurationS = configs.SourceConsole, 0, 0
	}), nil)
	source := &pressed{}
	h := r.newIntake(source)
	h.Config.Awaits = r.awaits
	h.Connect(nil, source)
	tick := func(n int) {
		for range n {
			fatal.If(t, r.Tick())
			h.TakeLabels()
		}
	}
	if tick(20); r.agent.Mode() != controller.Disarmed {
		t.Fatalf("%v before the first press", r.agent.Mode())
	}
	source.press()
	if tick(20); !r.agent.Armed() || len(source.refused) != 1 || h.Recorder.Statistics.Refused != 0 {
		t.Fatalf("%v after the first press, refused %v", r.agent.Mode(), source.refused)
	}
	source.press()
	if tick(2); len(source.refused) != 1 {
		t.Errorf("the second press: refused %v", errors.Join(source.refused...))
	}
}

func TestRun_StartsAloneWithoutAPerson(t *testing.T) {
	for _, source := range []string{configs.SourceScripted, configs.SourceNone} {
		r := newRun(t, rigtest.NewSession(t, func(f *configs.File) { f.Operator.Source = source }), nil)
		r.host.Away.Store(1) // a lost device
		if r.ticks(20); !r.agent.Armed() {
			t.Errorf("%s: %v", source, r.agent.Mode())
		}
	}
}
