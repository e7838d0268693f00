package unitree_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"optibfm/hal/monotonic"
	"optibfm/hal/unitree"
	"optibfm/hal/unitree/dds"
	"optibfm/hal/unitree/idl"
	"optibfm/hal/unitree/simulator"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// faults are the simulated faults, with the text of the error or the input for a stop.
var faults = []struct {
	name  string
	wrong func(*simulator.Faults)
	error string // empty: StopPressed
}{
	{"silent", func(f *simulator.Faults) { f.Silent = true }, "sends no state"},
	{"frozen", func(f *simulator.Faults) { f.Frozen = true }, "stands still"},
	{"wrong checksum", func(f *simulator.Faults) { f.BadCRC = true }, "wrong checksums"},
	{"not finite", func(f *simulator.Faults) { f.NaN = true }, "not finite"},
	{"mode_machine", func(f *simulator.Faults) { f.ModeMachine = 4 }, "mode_machine"},
	{"motor", func(f *simulator.Faults) { f.LosesJoint = 1 }, "motor "},
	{"hot", func(f *simulator.Faults) { f.HotJoint, f.Temperature = 2, 90 }, "temperature.stop_c"},
	{"battery", func(f *simulator.Faults) { f.Battery = 5 }, "battery.stop_percent"},
	{"fallen", func(f *simulator.Faults) { f.Fallen = true }, "fallen"},
	{"remote: stop", func(f *simulator.Faults) { f.Buttons, _ = unitree.ParseButtons("L2+B") }, ""},
	{"remote: off", func(f *simulator.Faults) { f.RemoteOff = true }, ""},
}

// TestRobot_StopsAfterEachFault is the table of docs/hazards.md for both robots.
func TestRobot_StopsAfterEachFault(t *testing.T) {
	for _, model := range []string{unitree.Go2, unitree.G1} {
		for _, fault := range faults {
			if testing.Short() && model == unitree.G1 {
				continue
			}
			if model == unitree.Go2 && fault.name == "mode_machine" || model == unitree.G1 && fault.name == "battery" {
				continue // it does not have them
			}
			t.Run(model+" "+fault.name, func(t *testing.T) {
				c := newConfig(model)
				c.StaleMS = 1000 // four faults wait for it
				sim := newRig(t, c)
				r := open(t, c)
				action := arm(t, r)
				w := sim.watch()
				act := func() error { time.Sleep(5 * time.Millisecond); return r.Act(action) }
				for range 20 {
					fatal.If(t, act())
				}
				sim.Set(fault.wrong)
				at := monotonic.Now()
				err := stopsWith(r, act)
				took := time.Duration(monotonic.Now() - at)
				if (err != nil) != (fault.error != "") || err != nil && !strings.Contains(err.Error(), fault.error) {
					t.Errorf("%v, want %q", err, fault.error)
				}
				errtest.Nil(t, r.Halt())
				w.await(t, 1)
				w.stop()
				t.Logf("found after %.0f ms: %v", float64(took)/1e6, err)
			})
		}
	}
}

// stopsWith runs ticks until Act fails or a stop is pressed, and returns the error of Sense or Act.
func stopsWith(r *unitree.Robot, act func() error) error {
	obs := make([]float32, len(r.Spec().Obs))
	for end := time.Now().Add(hangGuard); time.Now().Before(end); {
		_, err := r.Sense(obs)
		if err == nil && r.StopPressed() {
			return nil
		}
		if err := act(); err != nil {
			return err
		}
		if err != nil {
			return err
		}
	}
	return errors.New("nothing stopped it")
}

// TestRobot_RefusesToArmWithAFault shows that each fault also prevents arming, and that the writer
// then writes nothing.
func TestRobot_RefusesToArmWithAFault(t *testing.T) {
	c := newConfig(unitree.Go2)
	sim := newRig(t, c)
	r := open(t, c)
	for _, fault := range []struct {
		name, error string
		wrong       func(*simulator.Faults)
		reported    func(unitree.Report) bool
	}{
		{"battery", "battery.refuse_percent", func(f *simulator.Faults) { f.Battery = 15 },
			func(r unitree.Report) bool { return r.Battery == 15 }},
		{"warm", "temperature.refuse_c", func(f *simulator.Faults) { f.HotJoint, f.Temperature = 3, 75 },
			func(r unitree.Report) bool { return r.Temperature[3] == 75 && r.Battery == 80 }},
		{"fallen", "fallen", func(f *simulator.Faults) { f.Fallen = true },
			func(r unitree.Report) bool { return r.Quaternion[1] > 0.7 && r.Temperature[3] < 75 }},
		{"motor", "motor FL_hip", func(f *simulator.Faults) { f.LosesJoint = 3 },
			func(r unitree.Report) bool { return r.Fault == unitree.FaultMotor && r.Quaternion[1] < 0.7 }},
	} {
		sim.Set(func(f *simulator.Faults) { *f = simulator.Healthy(); fault.wrong(f) })
		until(t, fault.name, func() bool { return fault.reported(r.Report()) })
		settle(t, r, "a state", func(err error) bool { return err == nil })
		errtest.Contains(t, r.Arm(), fault.error, fault.name)
	}
	if obeyed, _ := sim.Counts(); obeyed > 0 {
		t.Errorf("%d commands to a robot that was never armed", obeyed)
	}
}

// TestRobot_RefusesAndStopsBesideAnotherWriter has a writer of rt/lowcmd that is not ours.
func TestRobot_RefusesAndStopsBesideAnotherWriter(t *testing.T) {
	c := newConfig(unitree.G1)
	sim := newRig(t, c)
	r := open(t, c)
	action := arm(t, r)
	w := sim.watch()
	fatal.If(t, errtest.Of(dds.NewWriter[idl.G1Command](sim.participant, "rt/lowcmd", idl.G1CommandType)))
	at := monotonic.Now()
	err := stopsWith(r, func() error { time.Sleep(5 * time.Millisecond); return r.Act(action) })
	if err == nil || !strings.Contains(err.Error(), "another program writes") {
		t.Fatalf("armed: %v", err)
	}
	t.Logf("stopped after %.0f ms", float64(monotonic.Now()-at)/1e6)
	errtest.Nil(t, r.Halt())
	w.await(t, 1)
	w.stop()
	errtest.Contains(t, r.Arm(), "another program writes", "arm")
}

// TestRobot_RefusesAndStopsBesideAnotherRobot has two robots on one network: both would obey.
func TestRobot_RefusesAndStopsBesideAnotherRobot(t *testing.T) {
	c := newConfig(unitree.Go2)
	sim := newRig(t, c)
	r := open(t, c)
	action := arm(t, r)
	w := sim.watch()
	second, err := simulator.New(sim.participant, c.Model, &simulator.Springs{})
	fatal.If(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- second.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	err = stopsWith(r, func() error { time.Sleep(5 * time.Millisecond); return r.Act(action) })
	errtest.Contains(t, err, "two robots", "armed")
	errtest.Nil(t, r.Halt())
	w.await(t, 1)
	w.stop()
	errtest.Contains(t, r.Arm(), "two robots", "arm")
}

// TestRobot_ToleratesASilentWriterIfConfigured stops only when that writer sends.
func TestRobot_ToleratesASilentWriterIfConfigured(t *testing.T) {
	c := newConfig(unitree.G1)
	c.OtherWriters = unitree.Silent
	sim := newRig(t, c)
	r := open(t, c)
	other, err := dds.NewWriter[idl.G1Command](sim.participant, "rt/lowcmd", idl.G1CommandType)
	fatal.If(t, err)
	action := arm(t, r)
	act := func() error { time.Sleep(5 * time.Millisecond); return r.Act(action) }
	for range 40 {
		if err := act(); err != nil {
			t.Fatalf("beside a silent writer: %v", err)
		}
	}
	fatal.If(t, other.Write())
	errtest.Contains(t, stopsWith(r, act), "another program writes", "beside one that sends")
}

// TestRobot_AcceptsTheQuirksOfASimulatorOnlyWithTheKey has states without checksum and tick.
func TestRobot_AcceptsTheQuirksOfASimulatorOnlyWithTheKey(t *testing.T) {
	c := newConfig(unitree.Go2)
	sim := newRig(t, c)
	sim.Set(func(f *simulator.Faults) { f.Quirks = true })
	if r, err := unitree.Open(t.Context(), c, period); err == nil || !strings.Contains(err.Error(), "checksums") {
		t.Errorf("without the key: %v, %v", r, err)
	}
	c.SimulatorQuirks = true
	r := open(t, c)
	action := arm(t, r)
	errtest.Nil(t, r.Act(action))
}
