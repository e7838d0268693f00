package recorder

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/scripted"
)

// intake is a desk with a log, and what it did.
type intake struct {
	*LabelIntake
	recorder *Recorder
	t        *testing.T
	path     string
	tick     uint64
	passed   []rewardsrc.Label
	results  []error
}

// results is a display that keeps what became of labels.
type results struct{ errs *[]error }

func (results) Outcome(*controller.Tick, *controller.AppliedLabel) {}
func (results) Tick(*controller.Tick)                              {}
func (results) Event(flightlog.Event)                              {}
func (r results) Label(_ rewardsrc.Label, err error)               { *r.errs = append(*r.errs, err) }

func newIntake(t *testing.T, source rewardsrc.Source, change func(*configs.File)) *intake {
	t.Helper()
	s := rigtest.NewSession(t, func(f *configs.File) {
		f.Controller.Credit = controller.CreditConfig{} // a press is about its own moment
		if change != nil {
			change(f)
		}
	})
	i := &intake{t: t}
	i.recorder = &Recorder{Statistics: NewStatistics(s.Shape()), Display: results{&i.results}}
	i.LabelIntake = NewLabelIntake(s.File, source, i.recorder, rewardsrc.Monotonic)
	var err error
	i.recorder.Log, i.path, err = s.CreateLog(rigtest.RoverSpec(t), "", false)
	fatal.If(t, err)
	t.Cleanup(func() { fatal.If(t, source.Halt()) })
	return i
}

// sense is a tick of a robot whose state was sensed just now.
func (i *intake) sense(flags controller.Flags) {
	i.tick++
	t := controller.NewTick(controller.Shape{Obs: 1, Action: 1, Latent: 1})
	t.Index, t.SenseAt, t.Flags = i.tick, rewardsrc.Monotonic(), flags
	i.NoteTick(t)
}

// take takes the next label of the source and returns the reason why it was refused.
func (i *intake) take() error {
	i.t.Helper()
	var one [1]rewardsrc.Label
	for deadline := time.Now().Add(rigtest.HangGuard); i.Source.Poll(one[:]) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			i.t.Fatal("no label came")
		}
	}
	i.give(one[0])
	return i.results[len(i.results)-1]
}

func (i *intake) give(l rewardsrc.Label) {
	i.Pass(l, func(l rewardsrc.Label) error {
		i.passed = append(i.passed, l)
		return nil
	})
	i.Report()
}

// logged closes the log and returns its labels and the texts of its events.
func (i *intake) logged() (labels []rewardsrc.Label, events []string) {
	i.t.Helper()
	fatal.If(i.t, i.recorder.Log.Close())
	r, err := flightlog.Open(i.path)
	fatal.If(i.t, err)
	defer r.Close()
	for record, err := range r.Records() {
		fatal.If(i.t, err)
		if record.Label != nil {
			labels = append(labels, *record.Label)
		}
		if record.Event != nil {
			events = append(events, record.Event.Text)
		}
	}
	return labels, events
}

func TestLabelIntake_RefusesEverySourceWhileStopped(t *testing.T) {
	for name, open := range rigtest.Operators {
		t.Run(name, func(t *testing.T) {
			source, press := open(t)
			i := newIntake(t, source, nil)
			i.sense(controller.FlagArmed)
			press()
			if err := i.take(); err != nil {
				t.Fatalf("a press while the robot moves: %v", err)
			}
			i.sense(controller.FlagArmed | controller.FlagStopped)
			i.sense(controller.FlagStopped)
			press()
			errtest.Is(t, i.take(), errStopped, "a press while the robot is stopped")
			i.give(rewardsrc.Label{Kind: rewardsrc.Undo, Tick: rewardsrc.NoTick, At: rewardsrc.Monotonic()})
			i.sense(0) // after a reset
			press()
			errtest.Nil(t, i.take(), "a press after the reset")
			if n := len(i.passed); n != 3 || i.passed[1].Kind != rewardsrc.Undo {
				t.Errorf("passed on %+v, want a label, an undo and a label", i.passed)
			}
			labels, events := i.logged()
			wantEvents := []string{"label 1 does NOT count: the robot was stopped or starting"}
			if len(labels) != 3 || !slices.Equal(events, wantEvents) {
				t.Errorf("the log has the labels %+v and the events %q", labels, events)
			}
			if y := i.recorder.Statistics; y.Refused != 1 || y.FirstBad != "the robot was stopped or starting" {
				t.Errorf("%d refused in the summary, because %q", y.Refused, y.FirstBad)
			}
		})
	}
}

func TestLabelIntake_AcceptsLabelsAboutMomentsBeforeTheStop(t *testing.T) {
	i := newIntake(t, &quietSource{}, nil)
	now := rewardsrc.Monotonic()
	const armed, stopped = controller.FlagArmed, controller.FlagStopped
	for tick, flags := range []controller.Flags{armed, armed | stopped, stopped} {
		at := now - 3e8 + int64(tick)*1e8
		i.NoteTick(&controller.Tick{Header: &controller.Header{Index: uint64(tick), SenseAt: at, Flags: flags}})
	}
	unasked := func(at int64) rewardsrc.Label {
		return rewardsrc.Label{Kind: rewardsrc.Value, Tick: rewardsrc.NoTick, At: at}
	}
	for _, c := range []struct {
		name  string
		label rewardsrc.Label
		want  error
	}{
		{"an answer", rewardsrc.Label{Kind: rewardsrc.Value, Request: 4, Tick: 1, At: now}, nil},
		{"a press that came too late for its request", rewardsrc.Label{Kind: rewardsrc.Value, Tick: 1, At: now}, nil},
		{"a press about a moment before the stop", unasked(now - 1e8 - 1), nil},
		{"a press about the stop", unasked(now - 1e8), errStopped},
		{"an oracle's about the stop", rewardsrc.Label{Kind: rewardsrc.Value, Tick: 2, At: now}, errStopped},
		{"a can't tell", rewardsrc.Label{Kind: rewardsrc.CantTell, Request: 5, Tick: 1, At: now}, nil},
		{"an undo", rewardsrc.Label{Kind: rewardsrc.Undo, Tick: rewardsrc.NoTick, At: now}, nil},
	} {
		i.give(c.label)
		errtest.Is(t, i.results[len(i.results)-1], c.want, c.name)
	}
}

func TestLabelIntake_RefusesImpossibleTimes(t *testing.T) {
	now := rewardsrc.Monotonic()
	for name, at := range map[string]int64{
		"60 s in the future": now + 60e9, "no time": -1, "more than a minute old": now - int64(rewardsrc.MaxLate) - 1,
		"the greatest": math.MaxInt64, "the least": math.MinInt64,
	} {
		for _, l := range []rewardsrc.Label{
			{Kind: rewardsrc.Value, Tick: rewardsrc.NoTick}, {Kind: rewardsrc.Value, Request: 4, Tick: 1},
			{Kind: rewardsrc.Undo, Tick: rewardsrc.NoTick},
		} {
			i := newIntake(t, &quietSource{}, nil)
			i.now = func() int64 { return now }
			l.At = at
			i.give(l)
			labels, events := i.logged()
			if !errors.Is(i.results[0], rewardsrc.ErrTime) || len(labels) != 0 || len(events) != 1 {
				t.Errorf("%s: %+v: %v; logged %+v, %q", name, l, i.results[0], labels, events)
			}
		}
	}
}

func TestLabelIntake_ReportsRefusalsOnceASecond(t *testing.T) {
	i := newIntake(t, &quietSource{}, func(f *configs.File) { f.Operator.LabelMode = configs.ModePerRequest })
	now := int64(100e9)
	i.now = func() int64 { return now }
	const presses, every = 2500, int64(1e6)
	for n := range presses {
		now += every
		i.give(rewardsrc.Label{Kind: rewardsrc.Value, Value: float64(n), Tick: rewardsrc.NoTick, At: now})
	}
	i.Flush()
	_, events := i.logged()
	want := []string{
		"label 0 does NOT count: ", "1000 presses do NOT count; the last: label 1000: ",
		"1000 presses do NOT count; the last: label 2000: ", "499 presses do NOT count; the last: label 2499: ",
	}
	if len(events) != len(want) {
		t.Fatalf("events %q", events)
	}
	for n := range want {
		if !strings.HasPrefix(events[n], want[n]) {
			t.Errorf("event %q, want %q", events[n], want[n])
		}
	}
}

func TestLockstepSource_RefusesLabelsAboutAStoppedRobot(t *testing.T) {
	cfg := scripted.DefaultConfig()
	operator, err := scripted.New(cfg)
	fatal.If(t, err)
	s := rigtest.NewSession(t, func(f *configs.File) { f.Controller.Credit = controller.CreditConfig{} })
	var refused []error
	r := &Recorder{Statistics: NewStatistics(s.Shape()), Display: results{&refused}}
	d := NewLabelIntake(s.File, operator, r, nil)
	source := NewLockstepSource(d)
	taken := 0
	for tick := range uint64(6) { // stopped from tick 2 to 3; the time is simulated
		at, flags := int64(tick)*20e6, controller.FlagArmed
		if tick == 2 || tick == 3 {
			flags = controller.FlagStopped
		}
		d.NoteTick(&controller.Tick{Header: &controller.Header{Index: tick, SenseAt: at, Flags: flags}})
		source.Watch(tick, at, 0.5, true)
		taken += source.Poll(make([]rewardsrc.Label, 4))
	}
	if taken != 4 || len(refused) != 6 || !errors.Is(refused[2], errStopped) || !errors.Is(refused[3], errStopped) {
		t.Errorf("%d taken, results %v; want all but those of ticks 2 and 3", taken, refused)
	}
}

func TestLabelIntake_PerRequestRefusesUnaskedPresses(t *testing.T) {
	source := &quietSource{}
	file := configs.Default()
	file.Operator.LabelMode = configs.ModePerRequest
	var errs []error
	r := &Recorder{Statistics: NewStatistics(controller.Shape{Obs: 1, Action: 1, Latent: 1}), Display: results{&errs}}
	d := NewLabelIntake(file, source, r, func() int64 { return 0 })
	passed := 0
	next := func(rewardsrc.Label) error { passed++; return nil }
	unasked := []rewardsrc.Kind{rewardsrc.Value, rewardsrc.Comparison, rewardsrc.Goal}
	for _, kind := range unasked {
		d.Pass(rewardsrc.Label{Kind: kind, Value: 1, Tick: rewardsrc.NoTick}, next)
		errtest.Is(t, errs[len(errs)-1], errNotAsked, kind)
	}
	if passed != 0 || source.refused != len(unasked) || d.lastID != 0 {
		t.Errorf("%d passed, %d refused, last ID %d", passed, source.refused, d.lastID)
	}
	for _, l := range []rewardsrc.Label{
		{Kind: rewardsrc.Value, Request: 4, Tick: 9},
		{Kind: rewardsrc.Value, Tick: 9}, // came too late for its request
		{Kind: rewardsrc.Undo, Tick: rewardsrc.NoTick},
	} {
		d.Pass(l, next)
	}
	if passed != 3 || source.refused != len(unasked) {
		t.Errorf("%d passed, %d refused", passed, source.refused)
	}
}

// quietSource counts the refusals that it receives.
type quietSource struct {
	setup.NoOperator
	refused int
}

func (q *quietSource) Acknowledge(rewardsrc.Label)   {}
func (q *quietSource) Refuse(rewardsrc.Label, error) { q.refused++ }

func TestLabelIntake_UndoKeepsAFormerTaskOnADeviceWithoutThatButton(t *testing.T) {
	for source, want := range map[string]rewardsrc.Kind{
		configs.SourceRemote: rewardsrc.Keep, configs.SourceKeyboard: rewardsrc.Undo,
	} {
		operator, err := scripted.New(scripted.DefaultConfig())
		fatal.If(t, err)
		i := newIntake(t, operator, func(f *configs.File) { f.Operator.Source = source })
		undo := func() rewardsrc.Label {
			i.give(rewardsrc.Label{Kind: rewardsrc.Undo, Undoes: 3, Tick: rewardsrc.NoTick, At: rewardsrc.Monotonic()})
			return i.passed[len(i.passed)-1]
		}
		i.sense(controller.FlagArmed)
		if got := undo(); got.Kind != rewardsrc.Undo || got.Undoes != 3 {
			t.Errorf("%s: without a change: %+v", source, got)
		}
		i.sense(controller.FlagArmed | controller.FlagKeepable)
		if got := undo(); got.Kind != want {
			t.Errorf("%s: after a change: %+v, want %v", source, got, want)
		}
	}
}
