package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/rigtest"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/evdev/evdevtest"
)

// transcript is a file that a command writes to and a test reads meanwhile.
type transcript struct {
	t    *testing.T
	path string
}

func (s *transcript) Text() string {
	s.t.Helper()
	b, err := os.ReadFile(s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

// start starts a command that writes to the file.
func (s *transcript) start(cmd *exec.Cmd) {
	s.t.Helper()
	out, err := os.Create(s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer out.Close() // the command has its own
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = cmd.Process.Kill() })
}

// wait waits until the command has said something.
func (s *transcript) wait(words string) {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(s.Text(), words); {
		if time.Now().After(deadline) {
			s.t.Fatalf("never said %q:\n%s", words, s.Text())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestTheLossOfTheOperatorsDeviceStopsTheAskingAndNotTheRobot(t *testing.T) {
	t.Parallel()
	machine := evdevtest.Machine{Dir: t.TempDir()}
	device := machine.Plug(rigtest.PedalInfo("event3"), nil)
	w, set := serveWatched(t)
	cmd := program(t, append(set, "operator.source=evdev", "operator.evdev.device.name=FootSwitch",
		"operator.evdev.good=KEY_A", "operator.evdev.bad=KEY_B",
		"operator.evdev.labels.refractory_ms=0", "operator.evdev.labels.reaction_ms=0",
		"controller.gate.kappa=0", "controller.gate.requests_per_minute=0", "controller.gate.timeout_s=0.2", "controller.gate.backoff_s=0")...)
	cmd.Env = append(cmd.Env, inputFolder+"="+machine.Dir)
	said := &transcript{t, filepath.Join(t.TempDir(), "output")}
	said.start(cmd)
	said.wait("label wanted")
	device.Press(rigtest.PedalGood)
	said.wait("label +1 saved (1)")
	device.Unplug()
	said.wait("nothing is asked until it is back; the robot goes on")
	time.Sleep(500 * time.Millisecond)
	device = machine.Plug(rigtest.PedalInfo("event8"), nil)
	said.wait("labels count again")
	device.Press(rigtest.PedalBad)
	said.wait("label -1 saved (2)")
	time.Sleep(300 * time.Millisecond) // to be asked again, and applied
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	w.waitHalted(t, time.Now())
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, said.Text())
	}
	checkAbsence(t, onlyLog(t, cmd))
}

// checkAbsence looks in a log for a while without an operator: the robot went
// on, unasked, and both labels counted.
func checkAbsence(t *testing.T, r *flightlog.Reader) {
	t.Helper()
	var away, askedAfter, applied int
	pressed := map[uint64]int64{}
	var told []string
	for record, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if e := record.Event; e != nil {
			told = append(told, e.Text)
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
				t.Errorf("tick %d asks with nobody there", tick.Index)
			}
		case away > 0 && tick.Flags.Has(controller.FlagAsked):
			askedAfter++
		}
	}
	if away < 10 || askedAfter == 0 || applied != 2 {
		t.Errorf("%d armed ticks without an operator, %d requests after, %d labels applied", away, askedAfter, applied)
	}
	if all := strings.Join(told, "\n"); !strings.Contains(all, "lost") || !strings.Contains(all, "labels count again") {
		t.Errorf("the log does not tell of the loss and the return:\n%s", all)
	}
	result, err := flightlog.Verify(r)
	if err != nil || !result.OK() {
		t.Errorf("replay: %v, %v", err, result.First)
	}
}

func TestAHeldAxisTeachesSteadilyAndNothingIsAsked(t *testing.T) {
	t.Parallel()
	machine := evdevtest.Machine{Dir: t.TempDir()}
	slider := evdev.Info{Node: "event4", Bus: 5, Name: "A Slider"}
	slider.Axes.Set(0)
	device := machine.Plug(slider, map[uint16]evdev.Range{0: {Value: 512, Min: 0, Max: 1023}})
	w, set := serveWatched(t)
	cmd := program(t, append(set, "operator.source=evdev", "operator.label_mode=continuous", "operator.evdev.device.name=A Slider",
		"operator.evdev.good=", "operator.evdev.bad=", "operator.evdev.axis.code=ABS_X", "operator.evdev.labels.interval_ms=100",
		"controller.gate.kappa=0", "controller.credit.held.delay_s=0.1", "controller.credit.held.width_s=0.1")...)
	cmd.Env = append(cmd.Env, inputFolder+"="+machine.Dir)
	said := &transcript{t, filepath.Join(t.TempDir(), "output")}
	said.start(cmd)
	for deadline := time.Now().Add(30 * time.Second); w.acts.Load() < 30 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	device.Move(0, 1023)
	said.wait("saved (8)")
	device.Move(0, 512)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	w.waitHalted(t, time.Now())
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, said.Text())
	}
	checkStream(t, onlyLog(t, cmd))
}

// checkStream looks in a log for a stream of labels of weight 0.2, each about
// the tenth of a second that began two tenths before it.
func checkStream(t *testing.T, r *flightlog.Reader) {
	t.Helper()
	pressed := map[uint64]rewardsrc.Label{}
	sensed := map[uint64]int64{}
	applied := 0
	for record, err := range r.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if record.Label != nil {
			pressed[record.Label.ID] = *record.Label
		}
		if record.Tick == nil {
			continue
		}
		sensed[record.Tick.Index] = record.Tick.SenseAt
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
			if lag := time.Duration(press.At - sensed[l.To]); lag < 100*time.Millisecond || lag > 200*time.Millisecond {
				t.Errorf("label %d is about a state %v before it", l.ID, lag)
			}
		}
	}
	if applied < 6 {
		t.Errorf("%d labels applied", applied)
	}
	if result, err := flightlog.Verify(r); err != nil || !result.OK() {
		t.Errorf("replay: %v, %v", err, result.First)
	}
}

func TestALabelModeWithoutRequestsTurnsTheGateOff(t *testing.T) {
	f := runFlags{config: "rover-keyboard", set: []string{"operator.label_mode=events"}}
	s, err := openRun(f)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := configs.Parse("the record", s.YAML)
	if err != nil {
		t.Fatal(err)
	}
	if !s.File.Controller.Gate.Off || !recorded.Controller.Gate.Off {
		t.Error("the robot would ask, or its log would say so")
	}
}
