package panel_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/panel"
	"optibfm/rewardsrc/rewardsrctest"
)

// wireKeys are the bytes of the roles.
var wireKeys = [panel.NumRoles]byte{
	panel.Good: 'g', panel.Bad: 'b', panel.Better: '>', panel.Worse: '<', panel.Goal: '!',
	panel.CantTell: 't', panel.Undo: 'u',
}

// wire is a device whose bytes are presses.
type wire struct {
	write *os.File
	opens atomic.Int32
	fails atomic.Pointer[error]
}

type wireConn struct {
	p  *panel.Panel
	fd int
}

func (w *wire) Open(p *panel.Panel) (panel.Conn, error) {
	w.opens.Add(1)
	if err := w.fails.Load(); err != nil {
		return nil, *err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	w.write = write
	fd, err := unix.Dup(int(read.Fd()))
	return &wireConn{p, fd}, errors.Join(err, read.Close())
}

func (c *wireConn) Fd() int      { return c.fd }
func (c *wireConn) Close() error { return unix.Close(c.fd) }
func (c *wireConn) Read() error {
	buf := make([]byte, 256)
	n, err := unix.Read(c.fd, buf)
	if err != nil || n == 0 {
		return errors.Join(errors.New("the wire is cut"), err)
	}
	for _, key := range buf[:n] {
		r := panel.Role(bytes.IndexByte(wireKeys[:], key))
		c.p.Down(r, rewardsrc.Monotonic())
		c.p.Up(r, rewardsrc.Monotonic())
	}
	return nil
}

func (w *wire) press(t *testing.T, keys string) {
	t.Helper()
	fatal.If(t, errtest.Of(w.write.WriteString(keys)))
}

func start(t *testing.T, w *wire, change func(*panel.Config), display func(rewardsrc.Notice)) *panel.Panel {
	t.Helper()
	cfg := panel.DefaultConfig()
	cfg.BadValue, cfg.RefractoryMS, cfg.ReactionMS = -1, 0, 0
	if change != nil {
		change(&cfg)
	}
	p, err := panel.Start(cfg, w, panel.Options{Name: "wire", Display: display, Retry: 10 * time.Millisecond})
	fatal.If(t, err)
	t.Cleanup(func() { errtest.Nil(t, p.Halt()) })
	return p
}

func TestPanel_CountsBouncesOnce(t *testing.T) {
	w := &wire{}
	p := start(t, w, func(c *panel.Config) { c.RefractoryMS = 5000 }, nil)
	w.press(t, "ggggbgbu") // undo marks the end
	if got := rewardsrctest.Labels(t, p, 3); got[0].Value != 1 || got[1].Value != -1 || got[2].Kind != rewardsrc.Undo {
		t.Errorf("labels %+v", got)
	}
}

func TestPanel_RolesGiveLabels(t *testing.T) {
	w := &wire{}
	p := start(t, w, func(c *panel.Config) { c.GoodValue, c.BadValue = 2, -1 }, nil)
	p.Ask(rewardsrc.Request{ID: 4, State: rewardsrc.Open})
	w.press(t, "><!ugb")
	got := rewardsrctest.Labels(t, p, 6)
	for i, want := range []rewardsrc.Label{
		{Kind: rewardsrc.Comparison, Value: 0.75, Tick: rewardsrc.NoTick},
		{Kind: rewardsrc.Comparison, Value: -0.75, Tick: rewardsrc.NoTick},
		{Kind: rewardsrc.Goal, Value: 1.5, Tick: rewardsrc.NoTick},
		{Kind: rewardsrc.Undo, Tick: rewardsrc.NoTick},
		{Kind: rewardsrc.Value, Value: 2, Request: 4},
		{Kind: rewardsrc.Value, Value: -1, Tick: rewardsrc.NoTick},
	} {
		want.At = got[i].At
		if got[i] != want {
			t.Errorf("label %d is %+v, want %+v", i, got[i], want)
		}
	}
}

func TestButtons_FieldsFollowRoles(t *testing.T) {
	var b panel.Buttons
	for _, r := range panel.Roles() {
		*b.Button(r) = r.String()
	}
	want := panel.Buttons{
		Good: "good", Bad: "bad", Better: "better", Worse: "worse", Goal: "goal", CantTell: "cant_tell", Undo: "undo",
	}
	if b != want || len(panel.Roles()) != panel.NumRoles {
		t.Errorf("%+v, want %+v", b, want)
	}
	for _, c := range []struct {
		buttons panel.Buttons
		want    bool
	}{
		{panel.Buttons{}, false}, {panel.Buttons{CantTell: "1", Undo: "2"}, false},
		{panel.Buttons{Bad: "1"}, true}, {panel.Buttons{Worse: "1"}, true}, {panel.Buttons{Goal: "1"}, true},
	} {
		if got := c.buttons.Teach(); got != c.want {
			t.Errorf("%+v teach: %v", c.buttons, got)
		}
	}
}

func TestPanel_BoundsAndReportsFlood(t *testing.T) {
	w := &wire{}
	var told string
	p := start(t, w, nil, func(n rewardsrc.Notice) {
		if n.Event == rewardsrc.Ignored {
			told = n.Text
		}
	})
	w.press(t, strings.Repeat("gb", 5000))
	rewardsrctest.Eventually(t, "lost presses", func() bool { return p.Missing() == 10_000-64 })
	rewardsrctest.Labels(t, p, 64)
	if !strings.Contains(told, "9936 presses may be lost") {
		t.Errorf("told %q", told)
	}
}

func TestPanel_CantTellNeedsARequest(t *testing.T) {
	w := &wire{}
	p := start(t, w, nil, nil)
	w.press(t, "tg")
	if got := rewardsrctest.Labels(t, p, 1)[0]; got.Kind != rewardsrc.Value {
		t.Errorf("label %+v", got)
	}
}

func TestPanel_ShowsOutcomes(t *testing.T) {
	var shown []rewardsrc.Notice
	p := start(t, &wire{}, nil, func(n rewardsrc.Notice) { shown = append(shown, n) })
	p.Ask(rewardsrc.Request{ID: 1, State: rewardsrc.Open})
	p.Ask(rewardsrc.Request{ID: 1, State: rewardsrc.Answered})
	p.Acknowledge(rewardsrc.Label{ID: 7, Kind: rewardsrc.Value, Value: 1})
	p.Refuse(rewardsrc.Label{ID: 8, Kind: rewardsrc.Undo}, errors.New("the disk is full"))
	want := []rewardsrc.Event{rewardsrc.Wanted, rewardsrc.Closed, rewardsrc.Acknowledged, rewardsrc.Refused}
	for i, e := range want {
		if i >= len(shown) || shown[i].Event != e {
			t.Fatalf("shown %+v", shown)
		}
	}
	if shown[2].Text != "label 1 saved (7)" || shown[3].Text != "undo does NOT count: the disk is full" {
		t.Errorf("texts %q, %q", shown[2].Text, shown[3].Text)
	}
}

func TestPanel_ReportsNewReasonOfAbsence(t *testing.T) {
	w := &wire{}
	var told []string
	p := start(t, w, nil, func(n rewardsrc.Notice) { told = append(told, n.Text) })
	refused := errors.New("permission denied")
	w.fails.Store(&refused)
	fatal.If(t, w.write.Close())
	rewardsrctest.Eventually(t, "the new reason", func() bool {
		p.Poll(nil)
		return strings.Contains(strings.Join(told, "\n"), "permission denied")
	})
	if p.Reachable() || p.Err() == nil {
		t.Error("reachable")
	}
}

func TestStart_FailsUnlessAbsent(t *testing.T) {
	w := &wire{}
	broken := errors.New("no such pin")
	w.fails.Store(&broken)
	errtest.Is(t, errtest.Of(panel.Start(panel.DefaultConfig(), w, panel.Options{Name: "wire"})), broken)
	absent := error(panel.ErrAbsent)
	w.fails.Store(&absent)
	p := start(t, w, nil, nil)
	if p.Reachable() {
		t.Error("reachable")
	}
	_, err := panel.Start(panel.Config{}, w, panel.Options{})
	errtest.Contains(t, err, "panel: interval_ms", "an empty configuration")
}

func TestPanel_RetriesAtConfiguredRate(t *testing.T) {
	w := &wire{}
	absent := error(panel.ErrAbsent)
	w.fails.Store(&absent)
	p := start(t, w, nil, nil)
	began := time.Now()
	for range 200 { // signals must not shorten the interval
		p.Ask(rewardsrc.Request{ID: 1, State: rewardsrc.Open})
		time.Sleep(time.Millisecond)
	}
	if n, most := int64(w.opens.Load()), time.Since(began).Milliseconds()/10+2; n > most {
		t.Errorf("looked %d times, at most %d looks fit with 10 ms between two", n, most)
	}
}
