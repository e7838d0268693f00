package gpio

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warthog618/go-gpiocdev/uapi"
	"golang.org/x/sys/unix"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/panel"
	"optibfm/rewardsrc/rewardsrctest"
)

// board is a simulated chip. Its events have the layout of the kernel's.
type board struct {
	mu        sync.Mutex
	absent    bool
	refuses   error // to be opened
	debounced bool
	pressed   [panel.NumRoles]bool
	switched  [NumOutputs][]bool
	closed    int

	write *os.File // events
	seqno uint32
	line  [8]uint32 // line seqnos
}

// offsets of the buttons' lines.
var offsets = [panel.NumRoles]uint32{
	panel.Good: 17, panel.Bad: 27, panel.Better: 23, panel.Worse: 24, panel.Goal: 25, panel.CantTell: 22, panel.Undo: 5,
}

func (b *board) Open(Config) (Lines, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.absent {
		return nil, panel.ErrAbsent
	}
	if b.refuses != nil {
		return nil, b.refuses
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	fd, err := unix.Dup(int(read.Fd()))
	if err := errors.Join(err, read.Close(), unix.SetNonblock(fd, true)); err != nil {
		return nil, err
	}
	b.write, b.seqno, b.line = write, 0, [8]uint32{}
	return &boardLines{b, fd}, nil
}

type boardLines struct {
	*board
	fd int
}

func (l *boardLines) Fd() int         { return l.fd }
func (l *boardLines) Debounced() bool { return l.debounced }
func (l *boardLines) Button(offset uint32) (panel.Role, bool) {
	i := slices.Index(offsets[:], offset)
	return panel.Role(i), i >= 0
}
func (l *boardLines) Pressed() ([panel.NumRoles]bool, error) { return l.pressed, nil }
func (l *boardLines) Set(o Output, on bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.switched[o] = append(l.switched[o], on)
	return nil
}
func (l *boardLines) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed++
	return unix.Close(l.fd)
}

// edge is one event; skip makes earlier ones of the line missing.
func (b *board) edge(r panel.Role, id uapi.LineEventID, at int64, skip uint32) uapi.LineEvent {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.line[r] += 1 + skip
	b.seqno += 1 + skip
	return uapi.LineEvent{Timestamp: uint64(at), ID: id, Offset: offsets[r], Seqno: b.seqno, LineSeqno: b.line[r]}
}

func (b *board) down(r panel.Role) uapi.LineEvent {
	return b.edge(r, uapi.LineEventRisingEdge, rewardsrc.Monotonic(), 0)
}

func (b *board) up(r panel.Role) uapi.LineEvent {
	return b.edge(r, uapi.LineEventFallingEdge, rewardsrc.Monotonic(), 0)
}

// send writes events as the kernel does.
func (b *board) send(t *testing.T, events ...uapi.LineEvent) {
	t.Helper()
	var text []byte
	var err error
	for _, e := range events {
		if text, err = binary.Append(text, binary.NativeEndian, e); err != nil {
			t.Fatal(err)
		}
	}
	fatal.If(t, errtest.Of(b.write.Write(text)))
}

func (b *board) press(t *testing.T, r panel.Role) { t.Helper(); b.send(t, b.down(r), b.up(r)) }

func config() Config {
	cfg := DefaultConfig()
	cfg.Buttons = panel.Buttons{
		Good: "17", Bad: "27", Better: "23", Worse: "24", Goal: "25", CantTell: "22", Undo: "5",
	}
	cfg.LED, cfg.Buzzer = "6", "13"
	cfg.Labels.BadValue = -1
	cfg.Labels.RefractoryMS, cfg.Labels.ReactionMS = 0, 0
	return cfg
}

func open(t *testing.T, b *board, cfg Config, show func(rewardsrc.Notice)) *panel.Panel {
	t.Helper()
	p, err := Open(cfg, Options{System: b, Display: show, Retry: 10 * time.Millisecond})
	fatal.If(t, err)
	t.Cleanup(func() { errtest.Nil(t, p.Halt()) })
	return p
}

func TestPanel_ButtonGivesLabelAtKernelTime(t *testing.T) {
	b := &board{debounced: true}
	p := open(t, b, config(), nil)
	p.Ask(rewardsrc.Request{ID: 4, Tick: 9, State: rewardsrc.Open})
	tell := b.down(panel.CantTell)
	b.send(t, tell, b.up(panel.CantTell))
	good := b.down(panel.Good)
	b.send(t, good, b.up(panel.Good))
	b.press(t, panel.Bad)
	b.press(t, panel.Better)
	b.press(t, panel.Worse)
	b.press(t, panel.Goal)
	b.press(t, panel.Undo)
	got := rewardsrctest.Labels(t, p, 7)
	want := []rewardsrc.Label{
		{Kind: rewardsrc.CantTell, Request: 4, Tick: 9, At: int64(tell.Timestamp)},
		{Kind: rewardsrc.Value, Value: 1, Tick: rewardsrc.NoTick, At: int64(good.Timestamp)},
		{Kind: rewardsrc.Value, Value: -1, Tick: rewardsrc.NoTick, At: got[2].At},
		{Kind: rewardsrc.Comparison, Value: 0.5, Tick: rewardsrc.NoTick, At: got[3].At},
		{Kind: rewardsrc.Comparison, Value: -0.5, Tick: rewardsrc.NoTick, At: got[4].At},
		{Kind: rewardsrc.Goal, Value: 1, Tick: rewardsrc.NoTick, At: got[5].At},
		{Kind: rewardsrc.Undo, Tick: rewardsrc.NoTick, At: got[6].At},
	}
	if !slices.Equal(got, want) {
		t.Errorf("labels %+v\nwant %+v", got, want)
	}
}

func TestConn_IgnoresButtonHeldAtOpen(t *testing.T) {
	b := &board{debounced: true, pressed: [panel.NumRoles]bool{panel.Bad: true}}
	p := open(t, b, config(), nil)
	b.send(t, b.up(panel.Bad))
	b.press(t, panel.Good)
	if got := rewardsrctest.Labels(t, p, 1)[0]; got.Value != 1 {
		t.Errorf("label %+v", got)
	}
}

func TestButton_CountsLostEdgesAsPresses(t *testing.T) {
	for _, c := range []struct {
		level   bool // before the gap
		missing uint32
		want    uint64
	}{{false, 0, 0}, {false, 1, 1}, {false, 2, 1}, {false, 3, 2}, {true, 1, 0}, {true, 2, 1}, {true, 3, 1}} {
		b := button{seqno: ^uint32(0) - 1, level: c.level} // the counter wraps
		if got := b.lost(b.seqno + 1 + c.missing); got != c.want {
			t.Errorf("level %v, %d edges missing: %d presses, want %d", c.level, c.missing, got, c.want)
		}
	}
	if b := (button{seqno: 9}); b.lost(9) != 0 || b.lost(8) != 0 {
		t.Error("a counter that does not advance counts as a loss")
	}
}

func TestPanel_ReportsLostPresses(t *testing.T) {
	b := &board{debounced: true}
	var told string
	p := open(t, b, config(), func(n rewardsrc.Notice) {
		if n.Event == rewardsrc.Ignored {
			told = n.Text
		}
	})
	b.press(t, panel.Good)
	b.send(t, b.edge(panel.Good, uapi.LineEventRisingEdge, rewardsrc.Monotonic(), 20))
	rewardsrctest.Labels(t, p, 2)
	p.Poll(nil)
	if p.Missing() != 10 || !strings.Contains(told, "10 presses may be lost") {
		t.Errorf("missing %d, told %q", p.Missing(), told)
	}
}

func TestButton_DebouncesToFirstEdge(t *testing.T) {
	var b button
	const period = 10
	type step struct {
		at   int64
		down bool
	}
	var changes []step
	seqno := uint32(0)
	edge := func(down bool, at int64) {
		if first, ok := b.settle(at, period); ok {
			changes = append(changes, step{first, b.down})
		}
		seqno++
		b.edge(down, at, seqno, period)
	}
	for i, at := range []int64{100, 101, 103, 104, 108} { // bounces down
		edge(i%2 == 0, at)
	}
	for i, at := range []int64{200, 202, 204} { // and up
		edge(i%2 == 1, at)
	}
	for i, at := range []int64{300, 304} { // a spike is nothing
		edge(i%2 == 0, at)
	}
	edge(true, 400)
	if _, ok := b.settle(409, period); ok {
		t.Error("settled after 9 of 10")
	}
	if first, ok := b.settle(410, period); !ok || first != 400 {
		t.Errorf("settled %v at %d", ok, first)
	}
	if want := []step{{100, true}, {200, false}}; !slices.Equal(changes, want) {
		t.Errorf("changes %v, want %v", changes, want)
	}
}

func TestConn_DebouncesWithoutFurtherEdge(t *testing.T) {
	b := &board{}
	p := open(t, b, config(), nil)
	at := rewardsrc.Monotonic()
	b.send(t,
		b.edge(panel.Bad, uapi.LineEventRisingEdge, at, 0),
		b.edge(panel.Bad, uapi.LineEventFallingEdge, at+1e6, 0),
		b.edge(panel.Bad, uapi.LineEventRisingEdge, at+2e6, 0))
	if got := rewardsrctest.Labels(t, p, 1)[0]; got.At != at || got.Value != -1 {
		t.Errorf("label %+v, want a press at %d", got, at)
	}
}

func TestConn_IgnoresUnknownEvents(t *testing.T) {
	b := &board{debounced: true}
	p := open(t, b, config(), nil)
	b.send(t, uapi.LineEvent{Offset: 99, ID: uapi.LineEventRisingEdge}, uapi.LineEvent{Offset: 17, ID: 7})
	b.press(t, panel.Good)
	rewardsrctest.Labels(t, p, 1)
}

func TestLamp_BlinksWhileLabelIsWanted(t *testing.T) {
	led := lamp{patterns: patterns[LED]}
	buzzer := lamp{patterns: patterns[Buzzer]}
	type look struct {
		at          int64 // ms
		led, buzzer bool
	}
	check := func(looks ...look) {
		t.Helper()
		for _, l := range looks {
			if on, until := led.show(l.at * ms); on != l.led || until <= l.at*ms {
				t.Errorf("%d ms: light %v until %d", l.at, on, until/ms)
			}
			if on, until := buzzer.show(l.at * ms); on != l.buzzer || until <= l.at*ms {
				t.Errorf("%d ms: buzzer %v until %d", l.at, on, until/ms)
			}
		}
	}
	check(look{0, false, false})
	led.signal(panel.Asking, 1000*ms)
	buzzer.signal(panel.Asking, 1000*ms)
	check(look{1000, true, true}, look{1080, true, false}, look{1250, false, false},
		look{1500, true, false}, look{9000, true, false})
	led.signal(panel.Idle, 9100*ms)
	led.signal(panel.Acknowledged, 9100*ms)
	buzzer.signal(panel.Idle, 9100*ms)
	buzzer.signal(panel.Acknowledged, 9100*ms)
	check(look{9100, true, true}, look{9150, true, false}, look{9210, true, true},
		look{9500, false, false}, look{9999, false, false})
	led.signal(panel.Refused, 10_000*ms)
	buzzer.signal(panel.Refused, 10_000*ms)
	check(look{10_000, true, true}, look{10_090, false, true}, look{10_170, true, true},
		look{10_499, true, true}, look{10_500, true, false}, look{10_900, false, false})
}

func TestConn_OutputsShowSignals(t *testing.T) {
	b := &board{debounced: true}
	var now atomic.Int64
	now.Store(1e12)
	p, err := Open(config(), Options{System: b, Now: now.Load})
	fatal.If(t, err)
	defer p.Halt()
	wait := func(what string, led, buzzer []bool) {
		t.Helper()
		rewardsrctest.Eventually(t, what, func() bool {
			b.mu.Lock()
			defer b.mu.Unlock()
			return slices.Equal(b.switched[LED], led) && slices.Equal(b.switched[Buzzer], buzzer)
		})
	}
	const on, off = true, false
	p.Ask(rewardsrc.Request{ID: 1, State: rewardsrc.Open})
	wait("asking", []bool{on}, []bool{on})
	now.Add(100 * ms)
	wait("the end of the beep", []bool{on}, []bool{on, off})
	p.Ask(rewardsrc.Request{ID: 1, State: rewardsrc.Expired})
	wait("darkness", []bool{on, off}, []bool{on, off})
	p.Acknowledge(rewardsrc.Label{Kind: rewardsrc.Value})
	wait("the acknowledgement", []bool{on, off, on}, []bool{on, off, on})
	now.Add(500 * ms)
	wait("the end of the acknowledgement", []bool{on, off, on, off}, []bool{on, off, on, off})
	p.Refuse(rewardsrc.Label{Kind: rewardsrc.Value}, errors.New("full"))
	wait("the refusal", []bool{on, off, on, off, on}, []bool{on, off, on, off, on})
}

func TestPanel_ReconnectsAndAsksAgain(t *testing.T) {
	b := &board{debounced: true}
	var events []rewardsrc.Event
	p := open(t, b, config(), func(n rewardsrc.Notice) { events = append(events, n.Event) })
	b.mu.Lock()
	b.absent = true
	b.mu.Unlock()
	p.Ask(rewardsrc.Request{ID: 1, State: rewardsrc.Open})
	fatal.If(t, b.write.Close())
	rewardsrctest.Eventually(t, "the loss", func() bool { p.Poll(nil); return slices.Contains(events, rewardsrc.Lost) })
	b.mu.Lock()
	n := len(b.switched[LED])
	b.absent = false
	b.mu.Unlock()
	rewardsrctest.Eventually(t, "the return", func() bool {
		p.Poll(nil)
		return slices.Contains(events, rewardsrc.Returned)
	})
	rewardsrctest.Eventually(t, "the blinking", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.switched[LED]) > n
	})
	b.press(t, panel.Good)
	if got := rewardsrctest.Labels(t, p, 1)[0]; got.Request != 1 {
		t.Errorf("label %+v does not answer the request that is still open", got)
	}
}

func TestOpen_RefusesUnusableChip(t *testing.T) {
	errtest.Is(t, errtest.Of(Open(config(), Options{System: &board{refuses: unix.EBUSY}})), unix.EBUSY)
	cfg := config()
	cfg.Buttons = panel.Buttons{Undo: "5"}
	errtest.Contains(t, errtest.Of(Open(cfg, Options{System: &board{}})), "gpioinfo")
}

func TestConfig_NamesEveryMistake(t *testing.T) {
	cfg := config()
	cfg.Bad, cfg.Goal, cfg.LED, cfg.Bias, cfg.DebounceMS = cfg.Good, cfg.Better, cfg.Undo, "sideways", -1
	err := cfg.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"bad is the same line as good", "goal is the same line as better",
		"led is the same line as undo", "bias is", "debounce_ms is",
	} {
		if !strings.Contains(err.Error(), "gpio: "+want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	errtest.Nil(t, DefaultConfig().Validate(), "the default is refused")
}

func TestButtonFlags_FollowConfig(t *testing.T) {
	cfg := config()
	plain := uapi.LineFlagV2Input | uapi.LineFlagV2EdgeBoth
	if got, want := buttonFlags(cfg), plain|uapi.LineFlagV2ActiveLow|uapi.LineFlagV2BiasPullUp; got != want {
		t.Errorf("flags %b, want %b", got, want)
	}
	cfg.ActiveLow, cfg.Bias = false, AsIs
	if got := buttonFlags(cfg); got != plain {
		t.Errorf("flags %b, want %b", got, plain)
	}
	if got := buttonFlags(cfg); got.HasRealtimeEventClock() {
		t.Error("events are not on CLOCK_MONOTONIC")
	}
}

func TestKernel_TellsAbsentChipFromWrongFile(t *testing.T) {
	cfg := Config{Chip: "/nowhere/gpiochip0", Buttons: panel.Buttons{Good: "1"}}
	errtest.Is(t, errtest.Of((Kernel{}).Open(cfg)), panel.ErrAbsent)
	path := filepath.Join(t.TempDir(), "chip")
	fatal.If(t, os.WriteFile(path, nil, 0o600))
	cfg.Chip = path
	if _, err := (Kernel{}).Open(cfg); err == nil || errors.Is(err, panel.ErrAbsent) {
		t.Errorf("error %v", err)
	}
}

func FuzzEvent(f *testing.F) {
	f.Add(make([]byte, eventSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < eventSize {
			return
		}
		var want uapi.LineEvent
		fatal.If(t, errtest.Of(binary.Decode(b, binary.NativeEndian, &want)))
		want.Padding = [len(want.Padding)]uint32{}
		if got := parseEvent(b); got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
		c := conn{panel: nil, lines: &boardLines{board: &board{}}}
		if _, ok := c.lines.Button(want.Offset); !ok {
			c.take(want) // of another line: no effect
		}
	})
}
