package remote

import (
	"sync"
	"testing"
	"time"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/panel"
)

// presses is a queue of letters, pressed now.
type presses struct {
	mu      sync.Mutex
	letters []rune
}

func (p *presses) NextPress() (rune, int64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.letters) == 0 {
		return 0, 0, false
	}
	l := p.letters[0]
	p.letters = p.letters[1:]
	return l, rewardsrc.Monotonic(), true
}

func TestOpen_LettersAreLabels(t *testing.T) {
	queue := &presses{letters: []rune("AQBXY")} // Q has no meaning
	source, err := Open(DefaultConfig(), queue, panel.Options{})
	fatal.If(t, err)
	defer func() { errtest.Nil(t, source.Halt()) }()
	var got []rewardsrc.Label
	dst := make([]rewardsrc.Label, 8)
	for range 1000 {
		got = append(got, dst[:source.Poll(dst)]...)
		if len(got) == 4 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	kinds := []rewardsrc.Kind{rewardsrc.Value, rewardsrc.Value, rewardsrc.Undo, rewardsrc.Goal}
	if len(got) != len(kinds) {
		t.Fatalf("%d labels: %+v", len(got), got)
	}
	for i, l := range got {
		if l.Kind != kinds[i] {
			t.Errorf("label %d is of kind %d, want %d", i, l.Kind, kinds[i])
		}
	}
	if got[0].Value != 1 || got[1].Value != 0 {
		t.Errorf("values %g and %g, want 1 and 0", got[0].Value, got[1].Value)
	}
}

func TestConfig_ValidateNamesKeys(t *testing.T) {
	c := DefaultConfig()
	errtest.Nil(t, c.Validate())
	c.Good, c.Undo = "L2", "B"
	err := c.Validate()
	for _, want := range []string{`remote: good is unknown ("L2")`, "remote: undo is the same button as bad (B)"} {
		errtest.Contains(t, err, want)
	}
}
