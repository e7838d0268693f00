package control

import (
	"testing"

	"optibfm/internal/host"
	"optibfm/internal/link"
	"optibfm/internal/rigtest"
	"optibfm/internal/terminal"
	"optibfm/rewardsrc"
)

// endless always has a label at hand, which the intake refuses.
type endless struct{ polls int }

func (*endless) Ask(rewardsrc.Request) {}
func (*endless) Halt() error           { return nil }
func (e *endless) Poll(dst []rewardsrc.Label) int {
	e.polls++
	dst[0] = rewardsrc.Label{Kind: rewardsrc.Value, At: -1}
	return 1
}

func TestHost_TakesABoundedNumberOfRefusedLabelsAtATime(t *testing.T) {
	e := newTwoEnds(t, rigtest.NewSession(t, nil))
	source := &endless{}
	h := &host.Process{Session: e.session, Link: e.host, Display: terminal.QuietDisplay{}}
	h.Connect(nil, source)
	h.TakeLabels() // returns
	if source.polls != link.LabelSlots {
		t.Errorf("%d labels taken, want %d", source.polls, link.LabelSlots)
	}
}
