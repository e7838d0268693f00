package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/evdev/evdevtest"
)

// waitFor waits until the output of a command contains some words.
func waitFor(t *testing.T, output *rigtest.SyncBuffer, words string) {
	t.Helper()
	if !rigtest.WaitUntil(rigtest.HangGuard, func() bool { return strings.Contains(output.String(), words) }) {
		t.Fatalf("no %q in\n%s", words, output)
	}
}

// endByInterrupt ends a run by SIGINT and waits for the halt.
func endByInterrupt(t *testing.T, w *watched, cmd *exec.Cmd, output *rigtest.SyncBuffer) {
	t.Helper()
	fatal.If(t, cmd.Process.Signal(os.Interrupt))
	w.waitHalted(t, time.Now())
	errtest.Nil(t, cmd.Wait(), output)
}

func TestRun_KeepsMovingWithoutTheLabelDevice(t *testing.T) {
	t.Parallel()
	machine := evdevtest.Machine{Dir: t.TempDir()}
	device := machine.Plug(rigtest.PedalInfo("event3"), nil)
	w, set := serveWatched(t)
	const evdev, gate = "operator.evdev.", "controller.gate."
	cmd := program(t, append(set, "operator.source=evdev", evdev+"device.name=FootSwitch", evdev+"good=KEY_A",
		evdev+"bad=KEY_B", evdev+"labels.refractory_ms=0", evdev+"labels.reaction_ms=0",
		gate+"kappa=0", gate+"requests_per_minute=0", gate+"timeout_s=0.2", gate+"backoff_s=0")...)
	cmd.Env = append(cmd.Env, inputFolder+"="+machine.Dir)
	output := startShared(t, cmd)
	waitFor(t, output, "questions wait until you are there: press a button of your device")
	device.Press(rigtest.PedalGood)
	waitFor(t, output, "label wanted")
	device.Press(rigtest.PedalGood)
	waitFor(t, output, "label 1 saved (2)")
	device.Unplug()
	waitFor(t, output, "nothing is asked until it is back; the robot continues")
	time.Sleep(500 * time.Millisecond)
	device = machine.Plug(rigtest.PedalInfo("event8"), nil)
	waitFor(t, output, "labels count again")
	device.Press(rigtest.PedalBad)
	waitFor(t, output, "label 0 saved (3)")
	time.Sleep(300 * time.Millisecond) // the label is applied, and the robot asks again
	endByInterrupt(t, w, cmd, output)
	checkAbsence(t, onlyLog(t, cmd))
}

// checkAbsence checks a log with a time without the label device: the robot moved without
// requests, and the labels of the presses while it moved counted.
func checkAbsence(t *testing.T, r *flightlog.Reader) {
	t.Helper()
	var away, askedAfter, applied int
	pressed := map[uint64]int64{}
	var events []string
	for record, err := range r.Records() {
		fatal.If(t, err)
		if e := record.Event; e != nil {
			events = append(events, e.Text)
		}
		if l := record.Label; l != nil {
			pressed[l.ID] = l.At
		}
		tick := record.Tick
		if tick == nil || !tick.Flags.Has(controller.FlagArmed) {
			continue
		}
		for _, l := range tick.Labels[:tick.NumLabels] {
			if l.Outcome == controller.Applied && l.Kind == rewardsrc.Value {
				applied++
				t.Logf("label %d: applied %v after the press", l.ID, time.Duration(tick.Done-pressed[l.ID]))
			}
		}
		switch {
		case tick.Flags.Has(controller.FlagUnreachable):
			away++
			if tick.Flags.Has(controller.FlagAsked) {
				t.Errorf("tick %d asks without the device", tick.Index)
			}
		case away > 0 && tick.Flags.Has(controller.FlagAsked):
			askedAfter++
		}
	}
	if away < 10 || askedAfter == 0 || applied < 2 {
		t.Errorf("%d armed ticks without an operator, %d requests after, %d labels applied", away, askedAfter, applied)
	}
	all := strings.Join(events, "\n")
	if !strings.Contains(all, "lost") || !strings.Contains(all, "labels count again") {
		t.Errorf("the log has no events of the loss and the return:\n%s", all)
	}
	checkVerified(t, r)
}

func TestRun_HeldAxisLabelsContinuously(t *testing.T) {
	t.Parallel()
	machine := evdevtest.Machine{Dir: t.TempDir()}
	slider := evdev.Info{Node: "event4", Bus: 5, Name: "A Slider"}
	slider.Axes.Set(0)
	device := machine.Plug(slider, map[uint16]evdev.Range{0: {Value: 512, Min: 0, Max: 1023}})
	w, set := serveWatched(t)
	cmd := program(t, append(set, "operator.source=evdev", "operator.label_mode=continuous",
		"operator.evdev.device.name=A Slider", "operator.evdev.good=", "operator.evdev.bad=",
		"operator.evdev.axis.code=ABS_X", "operator.evdev.labels.interval_ms=100",
		"controller.gate.kappa=0", "controller.credit.held.delay_s=0.1", "controller.credit.held.width_s=0.1")...)
	cmd.Env = append(cmd.Env, inputFolder+"="+machine.Dir)
	output := startShared(t, cmd)
	rigtest.WaitUntil(rigtest.HangGuard, func() bool { return w.acts.Load() >= 30 })
	device.Move(0, 1023)
	waitFor(t, output, "saved (12)") // a busy computer applies the last ones later
	device.Move(0, 512)
	endByInterrupt(t, w, cmd, output)
	checkStream(t, onlyLog(t, cmd))
}

// checkStream checks a log with a stream of labels of weight 0.2, each about a state 0.1 to
// 0.2 s before it, or about the last state before that.
func checkStream(t *testing.T, r *flightlog.Reader) {
	t.Helper()
	pressed := map[uint64]rewardsrc.Label{}
	sensed, after := map[uint64]int64{}, map[uint64]int64{} // of a tick, and of the one after it
	last, applied := uint64(0), 0
	for record, err := range r.Records() {
		fatal.If(t, err)
		if record.Label != nil {
			pressed[record.Label.ID] = *record.Label
		}
		if record.Tick == nil {
			continue
		}
		sensed[record.Tick.Index] = record.Tick.SenseAt
		after[last] = record.Tick.SenseAt // an Index that a late tick skipped has none
		last = record.Tick.Index
		if record.Tick.Flags.Has(controller.FlagAsked) {
			t.Errorf("tick %d asks", record.Tick.Index)
		}
		for _, l := range record.Tick.Labels[:record.Tick.NumLabels] {
			if l.Outcome != controller.Applied {
				continue
			}
			applied++
			press := pressed[l.ID]
			if press.Mode != rewardsrc.Held || press.Value != 1 || l.Confidence != 0.2 {
				t.Errorf("label %+v, credited as %+v", press, l)
			}
			lag, next := time.Duration(press.At-sensed[l.To]), time.Duration(press.At-after[l.To])
			late := next < 100*time.Millisecond // a late tick: no state is nearer
			if lag < 100*time.Millisecond || lag > 200*time.Millisecond && !late {
				t.Errorf("label %d is about a state %v before it", l.ID, lag)
			}
		}
	}
	if applied < 6 {
		t.Errorf("%d labels applied", applied)
	}
	checkVerified(t, r)
}

func TestOpenRun_EventsModeTurnsTheGateOff(t *testing.T) {
	f := runFlags{config: "rover-keyboard", set: []string{"operator.label_mode=events"}}
	s, err := openRun(f)
	fatal.If(t, err)
	recorded, err := configs.Parse("the record", s.YAML)
	fatal.If(t, err)
	if !s.File.Controller.Gate.Off || !recorded.Controller.Gate.Off {
		t.Error("the gate is on in the run or in its record")
	}
}
