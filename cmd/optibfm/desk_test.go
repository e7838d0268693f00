package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warthog618/go-gpiocdev/uapi"
	"golang.org/x/sys/unix"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/console"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/evdev/evdevtest"
	"optibfm/rewardsrc/gpio"
	"optibfm/rewardsrc/keyboard"
	"optibfm/rewardsrc/panel"
	"optibfm/rewardsrc/scripted"
	"optibfm/rewardsrc/web"
)

// operators opens each kind of source. press makes somebody press "good" on it.
var operators = map[string]func(t *testing.T) (source rewardsrc.Source, press func()){
	configs.SourceKeyboard: func(t *testing.T) (rewardsrc.Source, func()) {
		person, terminal := openPTY(t)
		cfg := keyboard.DefaultConfig()
		cfg.RefractoryMS = 0
		k, err := keyboard.Open(cfg, keyboard.Options{Terminal: terminal, Display: func(keyboard.Notice) {}})
		must(t, err)
		return k, func() { write(t, person, "+") }
	},
	configs.SourceConsole: func(t *testing.T) (rewardsrc.Source, func()) {
		in, person := io.Pipe()
		t.Cleanup(func() { _ = person.Close() })
		return console.Open(console.Options{In: in, Out: io.Discard, Good: 1, Bad: -1}), func() { write(t, person, "+\n") }
	},
	configs.SourceEvdev: func(t *testing.T) (rewardsrc.Source, func()) {
		machine := evdevtest.Machine{Dir: t.TempDir()}
		device := machine.Plug(pedal("event3"), nil)
		cfg := evdev.DefaultConfig()
		cfg.Device.Name, cfg.Good, cfg.Bad, cfg.Labels.RefractoryMS = "FootSwitch", "KEY_A", "KEY_B", 0
		p, err := evdev.Open(cfg, evdev.Options{System: machine})
		must(t, err)
		return p, func() { device.Press(pedalGood) }
	},
	configs.SourceGPIO: func(t *testing.T) (rewardsrc.Source, func()) {
		read, write, err := os.Pipe()
		must(t, err)
		must(t, unix.SetNonblock(int(read.Fd()), true))
		cfg := gpio.DefaultConfig()
		cfg.Good, cfg.Bad, cfg.Labels.RefractoryMS = "0", "1", 0
		p, err := gpio.Open(cfg, gpio.Options{System: chip{read}})
		must(t, err)
		edges := uint32(0)
		return p, func() {
			for _, id := range []uapi.LineEventID{uapi.LineEventRisingEdge, uapi.LineEventFallingEdge} {
				edges++
				must(t, binary.Write(write, binary.NativeEndian,
					uapi.LineEvent{Timestamp: uint64(rewardsrc.Monotonic()), ID: id, Seqno: edges, LineSeqno: edges}))
			}
		}
	},
	configs.SourceWeb: func(t *testing.T) (rewardsrc.Source, func()) {
		cfg := web.DefaultConfig()
		cfg.Listen, cfg.RefractoryMS = "127.0.0.1:0", 0
		s, err := web.Open(cfg, web.Options{Period: 20 * time.Millisecond})
		must(t, err)
		p := pairFrom(t, text(s.Pairing().URL))
		conn := p.dial(t.Context())
		go func() { // until the source is halted
			for err := error(nil); err == nil; {
				_, _, err = conn.Read(t.Context())
			}
		}()
		presses := 0
		return s, func() {
			presses++
			must(t, conn.Write(t.Context(), 1, fmt.Appendf(nil, `{"type":"press","id":%d,"kind":"good","at":1}`, presses)))
		}
	},
	configs.SourceScripted: func(t *testing.T) (rewardsrc.Source, func()) {
		cfg := scripted.DefaultConfig()
		cfg.Blind = true
		o, err := scripted.New(cfg)
		must(t, err)
		tick := uint64(0)
		return o, func() {
			tick++
			o.Watch(tick, rewardsrc.Monotonic(), 1, true)
		}
	},
}

type text string

func (s text) String() string { return string(s) }

// chip is a gpio.System and gpio.Lines with a button on line 0, whose events
// come from a pipe.
type chip struct{ events *os.File }

func (c chip) Open(gpio.Config) (gpio.Lines, error)        { return c, nil }
func (c chip) Fd() int                                     { return int(c.events.Fd()) }
func (chip) Button(line uint32) (panel.Role, bool)         { return panel.Good, line == 0 }
func (chip) Pressed() (down [panel.NumRoles]bool, _ error) { return down, nil }
func (chip) Debounced() bool                               { return true }
func (chip) Set(gpio.Output, bool) error                   { return nil }
func (c chip) Close() error                                { return c.events.Close() }

func write(t *testing.T, to io.Writer, text string) {
	t.Helper()
	_, err := io.WriteString(to, text)
	must(t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// intake is a desk with a log, and what it did.
type intake struct {
	*desk
	t       *testing.T
	path    string
	tick    uint64
	passed  []rewardsrc.Label
	results []error
}

func newIntake(t *testing.T, source rewardsrc.Source, change func(*configs.File)) *intake {
	t.Helper()
	s := testSession(t, func(f *configs.File) {
		f.Controller.Credit = controller.CreditConfig{} // a press is about its own moment
		if change != nil {
			change(f)
		}
	})
	i := &intake{t: t, desk: newDesk(s.file, source, newTally(s.shape()), rewardsrc.Monotonic)}
	var err error
	i.log, i.path, err = s.createLog(roverSpec(t), "", false)
	must(t, err)
	i.notify = func(_ rewardsrc.Label, err error) { i.results = append(i.results, err) }
	i.tell = func(e flightlog.Event) { must(t, i.log.WriteEvent(e)) }
	t.Cleanup(func() { must(t, source.Halt()) })
	return i
}

// sense is a tick of a robot whose state was sensed just now.
func (i *intake) sense(flags controller.Flags) {
	i.tick++
	t := controller.NewTick(controller.Shape{Obs: 1, Action: 1, Latent: 1})
	t.Index, t.SenseAt, t.Flags = i.tick, rewardsrc.Monotonic(), flags
	i.noteTick(t)
}

// take takes the next label of the source and returns why it was refused.
func (i *intake) take() error {
	i.t.Helper()
	var one [1]rewardsrc.Label
	for deadline := time.Now().Add(20 * time.Second); i.source.Poll(one[:]) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			i.t.Fatal("no label came")
		}
	}
	i.give(one[0])
	return i.results[len(i.results)-1]
}

func (i *intake) give(l rewardsrc.Label) {
	i.pass(l, func(l rewardsrc.Label) error {
		i.passed = append(i.passed, l)
		return nil
	})
	i.report()
}

// logged closes the log and returns its labels and the texts of its events.
func (i *intake) logged() (labels []rewardsrc.Label, events []string) {
	i.t.Helper()
	must(i.t, i.log.Close())
	r, err := flightlog.Open(i.path)
	must(i.t, err)
	defer r.Close()
	for record, err := range r.Records() {
		must(i.t, err)
		if record.Label != nil {
			labels = append(labels, *record.Label)
		}
		if record.Event != nil {
			events = append(events, record.Event.Text)
		}
	}
	return labels, events
}

func TestDesk_TakesNoLabelOfAnySourceWhileTheRobotIsStopped(t *testing.T) {
	for name, open := range operators {
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
			if err := i.take(); !errors.Is(err, errStopped) {
				t.Errorf("a press while the robot is stopped: %v", err)
			}
			i.give(rewardsrc.Label{Kind: rewardsrc.Undo, Tick: rewardsrc.NoTick, At: rewardsrc.Monotonic()})
			i.sense(0) // after a reset
			press()
			if err := i.take(); err != nil {
				t.Errorf("a press after the reset: %v", err)
			}
			if n := len(i.passed); n != 3 || i.passed[1].Kind != rewardsrc.Undo {
				t.Errorf("passed on %+v, want a label, an undo and a label", i.passed)
			}
			labels, events := i.logged()
			if len(labels) != 3 || len(events) != 1 || events[0] != "label +1 does NOT count: the robot was stopped" {
				t.Errorf("the log has the labels %+v and the events %q", labels, events)
			}
			if y := i.tally; y.refused != 1 || y.firstBad != "the robot was stopped" {
				t.Errorf("%d refused in the summary, because %q", y.refused, y.firstBad)
			}
		})
	}
}

func TestDesk_TakesAnswersAboutMomentsBeforeTheStop(t *testing.T) {
	i := newIntake(t, &quietSource{}, nil)
	now := rewardsrc.Monotonic()
	const armed, stopped = controller.FlagArmed, controller.FlagStopped
	for tick, flags := range []controller.Flags{armed, armed | stopped, stopped} {
		at := now - 3e8 + int64(tick)*1e8
		i.noteTick(&controller.Tick{Header: &controller.Header{Index: uint64(tick), SenseAt: at, Flags: flags}})
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
		if err := i.results[len(i.results)-1]; !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestDesk_RefusesLabelsWithAnImpossibleTime(t *testing.T) {
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

func TestDesk_ReportsRefusedPressesOnceASecond(t *testing.T) {
	i := newIntake(t, &quietSource{}, func(f *configs.File) { f.Operator.LabelMode = configs.ModePerRequest })
	now := int64(100e9)
	i.now = func() int64 { return now }
	const presses, every = 2500, int64(1e6)
	for n := range presses {
		now += every
		i.give(rewardsrc.Label{Kind: rewardsrc.Value, Value: float64(n), Tick: rewardsrc.NoTick, At: now})
	}
	i.flush()
	_, events := i.logged()
	want := []string{
		"label +0 does NOT count: ", "1000 presses do NOT count; the last: label +1000: ",
		"1000 presses do NOT count; the last: label +2000: ", "499 presses do NOT count; the last: label +2499: ",
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
	e := newTwoEnds(t, testSession(t, nil))
	source := &endless{}
	h := &host{link: e.host, desk: newDesk(e.session.file, source, newTally(e.agent.Shape()), rewardsrc.Monotonic)}
	h.takeLabels() // returns
	if source.polls != labelSlots {
		t.Errorf("%d labels taken, want %d", source.polls, labelSlots)
	}
}

func TestLockstepSource_TakesNoLabelAboutAStoppedRobot(t *testing.T) {
	cfg := scripted.DefaultConfig()
	operator, err := scripted.New(cfg)
	must(t, err)
	s := testSession(t, func(f *configs.File) { f.Controller.Credit = controller.CreditConfig{} })
	d := newDesk(s.file, operator, newTally(s.shape()), nil)
	var refused []error
	d.notify = func(_ rewardsrc.Label, err error) { refused = append(refused, err) }
	source := newLockstepSource(d)
	taken := 0
	for tick := range uint64(6) { // stopped from tick 2 to 3; the time is simulated
		at, flags := int64(tick)*20e6, controller.FlagArmed
		if tick == 2 || tick == 3 {
			flags = controller.FlagStopped
		}
		d.noteTick(&controller.Tick{Header: &controller.Header{Index: tick, SenseAt: at, Flags: flags}})
		source.Watch(tick, at, 0.5, true)
		taken += source.Poll(make([]rewardsrc.Label, 4))
	}
	if taken != 4 || len(refused) != 6 || !errors.Is(refused[2], errStopped) || !errors.Is(refused[3], errStopped) {
		t.Errorf("%d taken, results %v; want all but those of ticks 2 and 3", taken, refused)
	}
}

func TestRun_LearnsNothingFromPressesWhileTheRobotIsStopped(t *testing.T) {
	t.Parallel()
	r := prepareAttended(t, "", "operator.source=console", "controller.gate.kappa=50",
		"controller.credit.delay_s=0", "controller.credit.width_s=0")
	stdin, err := r.cmd.StdinPipe()
	must(t, err)
	r.start()
	says := func(line, answer string) {
		t.Helper()
		write(t, stdin, line)
		if !until(20*time.Second, func() bool { return strings.Contains(r.output.String(), answer) }) {
			t.Fatalf("no answer %q to %q:\n%s", answer, line, r.output)
		}
	}
	r.arm()
	says("+\n", "saved 1\n")
	r.must("stop", "stopped")
	// The host process learns of the stop some milliseconds later, from the ticks.
	if !until(20*time.Second, func() bool {
		write(t, stdin, "-\n")
		return strings.Contains(r.output.String(), "refused the robot was stopped\n")
	}) {
		t.Fatalf("no press was refused:\n%s", r.output)
	}
	saved := strings.Count(r.output.String(), "saved ")
	says("u\n", fmt.Sprintf("saved %d\n", saved+1))
	before, err := r.say("status")
	must(t, err)
	if !until(20*time.Second, func() bool { c, err := r.say("status"); return err == nil && c.Tick > before.Tick+2 }) {
		t.Fatalf("no ticks:\n%s", r.output)
	}
	must(t, r.end())
	log := onlyLog(t, r.cmd)
	outcomes := map[rewardsrc.Kind]int{}
	refusals := 0
	for entry, err := range log.Records() {
		must(t, err)
		if entry.Event != nil && strings.Contains(entry.Event.Text, "the robot was stopped") {
			refusals++
		}
		if entry.Tick == nil {
			continue
		}
		for _, l := range entry.Tick.Labels[:entry.Tick.NumLabels] {
			if l.Outcome == controller.Applied {
				outcomes[l.Kind]++
			}
			if l.Outcome == controller.Applied && l.Value < 0 && l.Kind == rewardsrc.Value {
				t.Errorf("label %d of the stopped robot counts", l.ID)
			}
		}
	}
	if outcomes[rewardsrc.Value] != 1 || outcomes[rewardsrc.Undo] != 1 || refusals == 0 {
		t.Errorf("applied %v, %d refusals in the log:\n%s", outcomes, refusals, r.output)
	}
	if result, err := flightlog.Verify(log); err != nil || !result.OK() {
		t.Errorf("the replay: %v, %v", err, result.First)
	}
}
