package gpio

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/hal/cp2112test"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/panel"
	"optibfm/rewardsrc/rewardsrctest"
)

// lineBoard is a chip of the kernel with a button at line 3, which pulls it low, and outputs at 5
// and 6.
type lineBoard struct {
	*cp2112test.Adapter
	t *testing.T
}

const released = 1 << 3 // the levels

func kernelBoard(t *testing.T) (lineBoard, Config) {
	t.Helper()
	if os.Getenv("OPTIBFM_VM") == "" {
		t.Skip("not in the machine of scripts/vm")
	}
	a, err := cp2112test.New(nil)
	fatal.If(t, err)
	t.Cleanup(func() { _ = a.Close() })
	a.Set(released)
	fatal.If(t, a.KeepPolling())
	cfg := DefaultConfig()
	cfg.Chip, cfg.Good, cfg.LED, cfg.Buzzer = a.Chip, "3", "5", "6"
	cfg.Labels.BadValue = -1
	cfg.Labels.RefractoryMS, cfg.Labels.ReactionMS = 0, 0
	return lineBoard{a, t}, cfg
}

func (b lineBoard) open(cfg Config) *panel.Panel {
	b.t.Helper()
	p, err := Open(cfg, Options{Retry: 20 * time.Millisecond})
	fatal.If(b.t, err)
	b.t.Cleanup(func() { errtest.Nil(b.t, p.Halt()) })
	return p
}

// press presses and releases the button.
func (b lineBoard) press() {
	b.t.Helper()
	b.levels(0, released)
}

// levels sets the levels one after the other, each until the kernel, which polls, has read it.
func (b lineBoard) levels(sequence ...byte) {
	b.t.Helper()
	for _, levels := range sequence {
		b.Set(levels)
		reads := b.Reads()
		rewardsrctest.Eventually(b.t, "the kernel's poll", func() bool { return b.Reads() > reads+1 })
	}
}

// shows waits for levels of the outputs.
func (b lineBoard) shows(what string, want byte) {
	b.t.Helper()
	rewardsrctest.Eventually(b.t, what, func() bool {
		_, levels := b.Outputs()
		return levels == want
	})
}

func TestKernel_LinePressesAndLamps(t *testing.T) {
	b, cfg := kernelBoard(t)
	p := b.open(cfg)
	if lines, levels := b.Outputs(); lines != 1<<5|1<<6 || levels != 0 {
		t.Errorf("outputs %b, levels %b", lines, levels)
	}
	p.Ask(rewardsrc.Request{ID: 1, Tick: 40, State: rewardsrc.Open})
	b.shows("the light", 1<<5) // after the buzzer
	b.shows("its pause", 0)
	before := rewardsrc.Monotonic()
	b.press()
	l := rewardsrctest.Labels(t, p, 1)[0]
	if l.Value != cfg.Labels.GoodValue || l.Request != 1 || l.At < before || l.At > rewardsrc.Monotonic() {
		t.Errorf("label %+v", l)
	}
	if p.Missing() != 0 {
		t.Errorf("%d presses missing", p.Missing())
	}
}

func TestKernel_LineBounces(t *testing.T) {
	b, cfg := kernelBoard(t)
	cfg.DebounceMS = 1000
	p := b.open(cfg)
	b.levels(0, released, 0, released, 0)
	rewardsrctest.Labels(t, p, 1)
	b.levels(released, 0, released, 0) // too short for another press
	var labels [2]rewardsrc.Label
	time.Sleep(1500 * time.Millisecond)
	if n := p.Poll(labels[:]); n != 0 {
		t.Errorf("%d labels of a button that bounced", n)
	}
}

func TestKernel_LineIsActiveLow(t *testing.T) {
	b, cfg := kernelBoard(t)
	cfg.LEDActiveLow = true
	p := b.open(cfg)
	b.shows("the light off", 1<<5)
	errtest.Nil(t, p.Halt())
	b.shows("the light off", 1<<5)
}

func TestKernel_LineInUseIsBusy(t *testing.T) {
	b, cfg := kernelBoard(t)
	b.open(cfg)
	errtest.Is(t, errtest.Of(Open(cfg, Options{})), unix.EBUSY)
}

func TestKernel_LossOfChipIsReported(t *testing.T) {
	b, cfg := kernelBoard(t)
	p := b.open(cfg)
	fatal.If(t, b.Close())
	rewardsrctest.Eventually(t, "the loss", func() bool { return !p.Reachable() })
}
