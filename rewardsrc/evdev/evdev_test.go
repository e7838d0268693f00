package evdev_test

import (
	"errors"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/evdev/evdevtest"
	"optibfm/rewardsrc/panel"
	"optibfm/rewardsrc/rewardsrctest"
)

const (
	keyGood, keyBad, keyTell, keyUndo = 304, 305, 307, 308 // BTN_A, BTN_B, BTN_X, BTN_Y
	keyBetter, keyWorse, keyGoal      = 310, 311, 315      // BTN_TL, BTN_TR, BTN_START
	absY                              = 1
)

var padButtons = panel.Buttons{
	Good: "BTN_A", Bad: "BTN_B", Better: "BTN_TL", Worse: "BTN_TR", Goal: "BTN_START", CantTell: "BTN_X", Undo: "BTN_Y",
}

// pad is a gamepad and the configuration that binds it.
func pad() (evdev.Info, evdev.Config) {
	info := evdev.Info{Node: "event7", Bus: 3, Vendor: 0x046d, Product: 0xc216, Name: "A Gamepad"}
	for _, code := range []uint16{keyGood, keyBad, keyBetter, keyWorse, keyGoal, keyTell, keyUndo} {
		info.Keys.Set(code)
	}
	info.Axes.Set(absY)
	cfg := evdev.DefaultConfig()
	cfg.Device = info.Match()
	cfg.Buttons = padButtons
	cfg.Labels.BadValue = -1
	cfg.Labels.RefractoryMS, cfg.Labels.ReactionMS = 0, 0
	return info, cfg
}

func padRanges() map[uint16]evdev.Range {
	return map[uint16]evdev.Range{absY: {Min: -100, Max: 100}}
}

// notices collects what the operator is shown.
type notices struct {
	mu  sync.Mutex
	all []rewardsrc.Notice
}

func (n *notices) show(x rewardsrc.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, x)
}

func (n *notices) text(e rewardsrc.Event) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, x := range n.all {
		if x.Event == e {
			return x.Text
		}
	}
	return ""
}

// rig is a panel on a machine with a gamepad.
type rig struct {
	t       *testing.T
	machine evdevtest.Machine
	pad     *evdevtest.Device
	panel   *panel.Panel
	shown   notices
	id      uint64
	now     func() int64
}

func newRig(t *testing.T, change func(*evdev.Config)) *rig {
	t.Helper()
	r := &rig{t: t, machine: evdevtest.Machine{Dir: t.TempDir()}}
	info, cfg := pad()
	if change != nil {
		change(&cfg)
	}
	r.pad = r.machine.Plug(info, padRanges())
	r.open(cfg)
	return r
}

func (r *rig) open(cfg evdev.Config) {
	r.t.Helper()
	p, err := evdev.Open(cfg, evdev.Options{
		System: r.machine, Now: r.now, Display: r.shown.show, Retry: 10 * time.Millisecond,
	})
	fatal.If(r.t, err)
	r.panel = p
	r.t.Cleanup(func() { errtest.Nil(r.t, p.Halt()) })
}

// labels waits for n labels and acknowledges them.
func (r *rig) labels(n int) (all []rewardsrc.Label) {
	r.t.Helper()
	rewardsrctest.Eventually(r.t, "labels", func() bool { all = append(all, r.take()...); return len(all) >= n })
	if len(all) != n {
		r.t.Fatalf("%d labels, want %d: %+v", len(all), n, all)
	}
	return all
}

// take acknowledges and returns the available labels.
func (r *rig) take() (all []rewardsrc.Label) {
	dst := make([]rewardsrc.Label, 1)
	for r.panel.Poll(dst) == 1 {
		r.id++
		dst[0].ID = r.id
		r.panel.Acknowledge(dst[0])
		all = append(all, dst[0])
	}
	return all
}

// none checks that the earlier events gave no label: a press of good comes first.
func (r *rig) none(what string) {
	r.t.Helper()
	r.pad.Press(keyGood)
	if got := r.labels(1)[0]; got.Value != 1 {
		r.t.Errorf("%s gave %+v", what, got)
	}
}

// discard drops the labels of all earlier events.
func (r *rig) discard() {
	r.t.Helper()
	r.pad.Press(keyGood)
	rewardsrctest.Eventually(r.t, "a press of good", func() bool {
		return slices.ContainsFunc(r.take(), func(l rewardsrc.Label) bool {
			return l.Mode == rewardsrc.Press && l.Value == 1
		})
	})
}

// key is one complete packet of a key.
func key(code uint16, value int32, at int64) []evdevtest.Event {
	return []evdevtest.Event{{At: at, Kind: evdevtest.EvKey, Code: code, Value: value}, {Kind: evdevtest.EvSyn}}
}

func TestDevice_PressHasKernelTime(t *testing.T) {
	r := newRig(t, nil)
	at := r.pad.Now()
	r.pad.Send(key(keyGood, 1, at)...)
	r.pad.Send(key(keyGood, 0, 0)...)
	got := r.labels(1)[0]
	want := rewardsrc.Label{ID: 1, Kind: rewardsrc.Value, Value: 1, Tick: rewardsrc.NoTick, At: at / 1000 * 1000}
	if got != want {
		t.Errorf("label %+v, want %+v", got, want)
	}
	r.pad.Press(keyBad)
	if got := r.labels(1)[0]; got.Value != -1 {
		t.Errorf("bad is %+v", got)
	}
	r.pad.Press(keyUndo)
	if got := r.labels(1)[0]; got.Kind != rewardsrc.Undo {
		t.Errorf("undo is %+v", got)
	}
}

func TestDevice_RefusesImpossibleTime(t *testing.T) {
	for name, at := range map[string]int64{
		"before the device was opened": 1,
		"no time":                      -1,
		"in the future":                rewardsrc.Monotonic() + int64(time.Hour),
	} {
		r := newRig(t, nil)
		r.pad.Send(key(keyGood, 1, at)...)
		r.pad.Up(keyGood)
		r.pad.Press(keyBad)
		if got := r.labels(1)[0]; got.Value != -1 {
			t.Errorf("a press %s counts: %+v", name, got)
		}
		told, want := r.shown.text(rewardsrc.Ignored), "a press does NOT count: "+rewardsrc.ErrTime.Error()
		if !strings.Contains(told, want) {
			t.Errorf("a press %s: told %q", name, told)
		}
	}
}

func TestDevice_AnswersClose(t *testing.T) {
	r := newRig(t, nil)
	for id, key := range []uint16{keyGood, keyTell} {
		request := rewardsrc.Request{ID: uint64(id) + 1, Tick: 40, State: rewardsrc.Open}
		r.panel.Ask(request)
		r.pad.Press(key)
		if got := r.labels(1)[0]; got.Request != request.ID {
			t.Errorf("label %+v does not answer", got)
		}
	}
}

func TestDevice_IgnoresAutorepeatAndOtherKeys(t *testing.T) {
	machine := evdevtest.Machine{Dir: t.TempDir()}
	info, cfg := pad()
	r := &rig{t: t, machine: machine, pad: machine.Plug(info, padRanges())}
	r.pad.Set(keyBad)
	r.open(cfg)
	r.pad.Up(keyBad)
	r.none("letting go of a key that was held before")
	r.pad.Send(key(keyBad, 2, 0)...)
	r.pad.Press(30)
	r.none("a repeat, or an unbound key")
}

func TestDevice_WaitsForSynReport(t *testing.T) {
	r := newRig(t, nil)
	r.pad.Send(evdevtest.Event{Kind: evdevtest.EvKey, Code: keyBad, Value: 1})
	time.Sleep(30 * time.Millisecond)
	if n := r.panel.Poll(make([]rewardsrc.Label, 1)); n != 0 {
		t.Fatal("half a packet gave a label")
	}
	r.pad.Send(evdevtest.Event{Kind: evdevtest.EvSyn})
	if got := r.labels(1)[0]; got.Value != -1 {
		t.Errorf("label %+v", got)
	}
}

func TestDevice_ReportsDroppedEvents(t *testing.T) {
	r := newRig(t, nil)
	r.pad.Set(keyBad) // went down among the lost ones
	r.pad.Send(
		evdevtest.Event{Kind: evdevtest.EvKey, Code: keyGood, Value: 1}, // void: its packet was cut
		evdevtest.Event{Kind: evdevtest.EvSyn, Code: evdevtest.SynDropped},
		evdevtest.Event{Kind: evdevtest.EvKey, Code: keyTell, Value: 1}, // void
		evdevtest.Event{Kind: evdevtest.EvSyn},
	)
	r.pad.Up(keyBad) // was known to be down: no press follows from it
	r.pad.Press(keyBad)
	if got := r.labels(1)[0]; got.Value != -1 {
		t.Errorf("label %+v", got)
	}
	if got := r.panel.Missing(); got != 1 {
		t.Errorf("%d presses missing, want 1", got)
	}
	if text := r.shown.text(rewardsrc.Ignored); !strings.Contains(text, "1 presses may be lost") {
		t.Errorf("told: %q", text)
	}
}

func TestDevice_ReportsLossAndReturn(t *testing.T) {
	r := newRig(t, nil)
	if !r.panel.Reachable() {
		t.Fatal("not reachable at the start")
	}
	r.pad.Unplug()
	rewardsrctest.Eventually(t, "the loss", func() bool {
		r.panel.Poll(nil)
		return r.shown.text(rewardsrc.Lost) != ""
	})
	if r.panel.Reachable() || r.panel.Err() == nil {
		t.Error("reachable although it is gone")
	}
	if text := r.shown.text(rewardsrc.Lost); !strings.Contains(text, `usb 046d:c216 "A Gamepad"`) {
		t.Errorf("told: %q", text)
	}
	info, _ := pad()
	info.Node = "event9" // as after a replug
	r.pad = r.machine.Plug(info, padRanges())
	rewardsrctest.Eventually(t, "the return", func() bool {
		r.panel.Poll(nil)
		return r.shown.text(rewardsrc.Returned) != ""
	})
	if !r.panel.Reachable() || r.panel.Err() != nil {
		t.Error("not reachable although it is back")
	}
	r.none("a replug")
}

func TestDevice_WaitsForAbsentDevice(t *testing.T) {
	r := &rig{t: t, machine: evdevtest.Machine{Dir: t.TempDir()}}
	info, cfg := pad()
	r.open(cfg)
	r.panel.Poll(nil)
	if r.panel.Reachable() || r.shown.text(rewardsrc.Lost) == "" {
		t.Error("an absent device was not told of")
	}
	r.pad = r.machine.Plug(info, padRanges())
	rewardsrctest.Eventually(t, "the device", r.panel.Reachable)
	r.none("waiting")
}

func TestOpen_RefusesUnusableDevice(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*evdevtest.Device)
		change  func(*evdev.Config)
		want    string
	}{
		"permission": {prepare: (*evdevtest.Device).Forbid, want: "group input"},
		"grabbed":    {prepare: (*evdevtest.Device).GrabElsewhere, want: "grab to false"},
		"key":        {change: func(c *evdev.Config) { c.Good = "KEY_F13" }, want: "has no KEY_F13"},
		"axis":       {change: func(c *evdev.Config) { c.Axis.Code = "ABS_RZ" }, want: "has no ABS_RZ"},
		"no device":  {change: func(c *evdev.Config) { c.Device = evdev.Match{} }, want: "label bind"},
	} {
		t.Run(name, func(t *testing.T) {
			machine := evdevtest.Machine{Dir: t.TempDir()}
			info, cfg := pad()
			device := machine.Plug(info, padRanges())
			if c.prepare != nil {
				c.prepare(device)
			}
			if c.change != nil {
				c.change(&cfg)
			}
			_, err := evdev.Open(cfg, evdev.Options{System: machine})
			errtest.Contains(t, err, c.want)
			if name == "permission" && !errors.Is(err, fs.ErrPermission) {
				t.Error("a caller cannot tell that it is the permission")
			}
		})
	}
}

// TestAxis_IsNotThatOfAMotionSensor connects a gamepad after its other nodes, which have the same
// numbers and axes.
func TestAxis_IsNotThatOfAMotionSensor(t *testing.T) {
	for name, property := range map[string]uint16{"motion sensor": 6, "touchpad": 0, "touch screen": 1} {
		machine := evdevtest.Machine{Dir: t.TempDir()}
		info, cfg := pad()
		other := info
		other.Node, other.Name = "event3", "A Gamepad's Other Node"
		other.Props.Set(property)
		machine.Plug(other, padRanges())
		cfg.Axis.Code, cfg.Device.Name = "ABS_Y", ""
		_, err := evdev.Open(cfg, evdev.Options{System: machine})
		errtest.Contains(t, err, "motion sensor or touch surface; to use its ABS_Y, name it", name, " alone")
		device := machine.Plug(info, padRanges())
		r := &rig{t: t, machine: machine, pad: device}
		r.open(cfg)
		device.Move(absY, 90)
		r.labels(1)
		cfg.Device.Name = other.Name // named, it is the person's choice
		(&rig{t: t, machine: machine}).open(cfg)
	}
}

func TestAxis_StreamsWhileDeflected(t *testing.T) {
	r := newRig(t, func(c *evdev.Config) {
		c.Axis.Code, c.Axis.Inverted, c.Axis.DeadZone = "ABS_Y", true, 0.2
		c.Labels.IntervalMS, c.Labels.Weight = 20, 0.25
	})
	r.pad.Move(absY, 10) // within the dead zone
	r.none("the dead zone")
	r.pad.Move(absY, -60)
	first := r.labels(1)[0]
	if first.Mode != rewardsrc.Held || first.Weight != 0.25 || math.Abs(first.Value-0.5) > 1e-12 {
		t.Errorf("label %+v, want 0.5 of a stream", first)
	}
	var rest []rewardsrc.Label
	rewardsrctest.Eventually(t, "a stream", func() bool { rest = append(rest, r.take()...); return len(rest) >= 5 })
	last := first.At
	for _, l := range rest {
		if l.At <= last {
			t.Errorf("label at %d after one at %d", l.At, last)
		}
		last = l.At
	}
	r.pad.Move(absY, 0)
	r.discard()
	r.none("a released axis")
}

func TestDevice_PausesStreamsOfLostDevice(t *testing.T) {
	for name, hold := range map[string]func(*evdevtest.Device){
		"axis": func(d *evdevtest.Device) { d.Move(absY, 100) },
		"key":  func(d *evdevtest.Device) { d.Down(keyGood) },
	} {
		t.Run(name, func(t *testing.T) {
			var ahead atomic.Int64
			r := &rig{t: t, machine: evdevtest.Machine{Dir: t.TempDir()}}
			r.now = func() int64 { return rewardsrc.Monotonic() + ahead.Load() }
			info, cfg := pad()
			cfg.Axis.Code, cfg.Labels.IntervalMS, cfg.Labels.HoldAfterMS = "ABS_Y", 20, 1
			r.pad = r.machine.Plug(info, padRanges())
			r.open(cfg)
			hold(r.pad)
			rewardsrctest.Eventually(t, "a stream", func() bool { return len(r.take()) > 0 })
			ahead.Store(4e9)
			r.pad.Send(evdevtest.Event{Kind: evdevtest.EvKey, Code: keyGood, Value: 2}, evdevtest.Event{}) // by the kernel
			rewardsrctest.Eventually(t, "the stream", func() bool { return len(r.take()) > 0 })
			ahead.Store(6e9)
			rewardsrctest.Eventually(t, "a notice", func() bool {
				r.take()
				return strings.Contains(r.shown.text(rewardsrc.Ignored), "without an event for 5s")
			})
			if extra := r.take(); len(extra) > 0 {
				t.Errorf("%d labels after the pause", len(extra))
			}
			r.pad.Move(absY, 90)
			rewardsrctest.Eventually(t, "the stream again", func() bool { return len(r.take()) > 0 })
		})
	}
}

func TestAxis_MustRestFirst(t *testing.T) {
	machine := evdevtest.Machine{Dir: t.TempDir()}
	info, cfg := pad()
	cfg.Axis.Code, cfg.Labels.IntervalMS = "ABS_Y", 20
	deflected := map[uint16]evdev.Range{absY: {Value: 80, Min: -100, Max: 100}}
	r := &rig{t: t, machine: machine, pad: machine.Plug(info, deflected)}
	r.open(cfg)
	r.pad.Move(absY, 90)
	r.none("an axis that was deflected from the start")
	r.none("an axis that was deflected from the start")
	r.pad.Move(absY, 0)
	r.pad.Move(absY, -100)
	rewardsrctest.Eventually(t, "labels", func() bool { l := r.take(); return len(l) > 0 && l[0].Value == -1 })
}

func TestDevice_UndoTakesBackStream(t *testing.T) {
	r := newRig(t, func(c *evdev.Config) { c.Labels.HoldAfterMS, c.Labels.IntervalMS = 40, 20 })
	r.pad.Press(keyGood)
	r.labels(1) // ID 1: stays
	r.pad.Down(keyBad)
	first := r.labels(1)[0] // the press itself
	if first.Mode != rewardsrc.Press || first.Weight != 0 {
		t.Errorf("the press is %+v", first)
	}
	var held []rewardsrc.Label
	rewardsrctest.Eventually(t, "a stream", func() bool { held = append(held, r.take()...); return len(held) >= 3 })
	r.pad.Up(keyBad)
	r.pad.Press(keyUndo)
	var undos []rewardsrc.Label
	rewardsrctest.Eventually(t, "the undo", func() bool {
		for _, l := range r.take() {
			if l.Kind == rewardsrc.Undo {
				undos = append(undos, l)
			} else {
				held = append(held, l)
			}
		}
		return len(undos) > 0 && len(undos) >= len(held)
	})
	for _, l := range held {
		if l.Mode != rewardsrc.Held || l.Value != -1 {
			t.Errorf("held: %+v", l)
		}
	}
	for i, u := range undos {
		if want := held[len(held)-1-i].ID; u.Kind != rewardsrc.Undo || u.Undoes != want {
			t.Errorf("undo %d takes back %d, want %d", i, u.Undoes, want)
		}
	}
	r.pad.Press(keyUndo)
	if u := r.labels(1)[0]; u.Undoes != 0 {
		t.Errorf("the next undo names label %d, want the newest that counts", u.Undoes)
	}
}

func TestDevice_HeldComparisonOrGoalIsOnePress(t *testing.T) {
	r := newRig(t, func(c *evdev.Config) { c.Labels.HoldAfterMS, c.Labels.IntervalMS = 20, 20 })
	for key, want := range map[uint16]rewardsrc.Label{
		keyBetter: {Kind: rewardsrc.Comparison, Value: 0.5}, keyWorse: {Kind: rewardsrc.Comparison, Value: -0.5},
		keyGoal: {Kind: rewardsrc.Goal, Value: 1},
	} {
		r.pad.Down(key)
		got := r.labels(1)[0]
		if got.Kind != want.Kind || got.Value != want.Value || got.Mode != rewardsrc.Press {
			t.Errorf("key %d gave %+v, want %+v", key, got, want)
		}
		time.Sleep(60 * time.Millisecond)
		r.pad.Up(key)
		r.pad.Press(keyGoal)
		if got := r.labels(1)[0]; got.Kind != rewardsrc.Goal {
			t.Errorf("a held button gave %+v", got)
		}
	}
}

func TestDevice_UndoTakesBackGoalAfterStream(t *testing.T) {
	r := newRig(t, func(c *evdev.Config) { c.Labels.HoldAfterMS, c.Labels.IntervalMS = 40, 20 })
	r.pad.Down(keyBad)
	held := 0
	rewardsrctest.Eventually(t, "a stream", func() bool { held += len(r.take()); return held >= 3 })
	r.pad.Up(keyBad)
	r.pad.Press(keyGoal)
	rewardsrctest.Eventually(t, "the goal", func() bool {
		return slices.ContainsFunc(r.take(), func(l rewardsrc.Label) bool { return l.Kind == rewardsrc.Goal })
	})
	r.pad.Press(keyUndo)
	if u := r.labels(1)[0]; u.Kind != rewardsrc.Undo || u.Undoes != 0 {
		t.Errorf("label %+v, want an undo of the newest label", u)
	}
}

func TestPoll_AllocatesNothingWhenIdle(t *testing.T) {
	r := newRig(t, nil)
	dst := make([]rewardsrc.Label, 4)
	if n := testing.AllocsPerRun(1000, func() { r.panel.Poll(dst) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func TestHalt_WhileDeviceIsAbsent(t *testing.T) {
	_, cfg := pad()
	p, err := evdev.Open(cfg, evdev.Options{System: evdevtest.Machine{Dir: t.TempDir()}})
	fatal.If(t, err)
	for range 2 {
		errtest.Nil(t, p.Halt())
	}
	p.Ask(rewardsrc.Request{ID: 1, State: rewardsrc.Open}) // too late, and no harm
}
