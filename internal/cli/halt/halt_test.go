package halt

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/hal/assembly"
	"optibfm/hal/dynamixel/dynamixeltest"
	"optibfm/hal/feetech/feetechtest"
	"optibfm/hal/mcu"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/sections"
)

// patientNeck lets the servos answer late on a busy computer.
const patientNeck = "robot.composite.devices[2].dynamixel.timeout_ms=1000"

// load returns a configuration with a socket in a new folder.
func load(t *testing.T, name string, set ...string) configs.File {
	t.Helper()
	file, err := configs.Load(name, append([]string{"safety.socket=" + filepath.Join(t.TempDir(), "s")}, set...)...)
	fatal.If(t, err)
	return file
}

// haltRobot returns what Robot prints: warnings, then results.
func haltRobot(t *testing.T, h assembly.Hardware, file configs.File) (printed string, err error) {
	t.Helper()
	var out bytes.Buffer
	defer func(was assembly.Hardware) { assembly.LocalHardware = was }(assembly.LocalHardware)
	assembly.LocalHardware = h
	err = Robot(t.Context(), &out, &out, file)
	return out.String(), err
}

func TestHalt_HaltsTheOtherServosOfAChainWithADeadServo(t *testing.T) {
	chain, err := feetechtest.New(feetechtest.NewServo(1, 0), feetechtest.NewServo(2, 1))
	fatal.If(t, err)
	t.Cleanup(func() { _ = chain.Close() })
	const device = "robot.composite.devices[0].feetech."
	file := load(t, rigtest.GripperFile, device+"port.path="+chain.Path,
		device+"timeout_ms=100", device+"halt_torque_off=false")
	chain.Miss(1, -1)
	chain.Set(2, feetechtest.Torque, 1, 1)
	chain.Set(2, feetechtest.GoalSpeed, 2, 700)
	printed, err := haltRobot(t, assembly.LocalHardware, file)
	const want = `devices[0] (arm): halt: feetech: "joint" (ID 1): ping`
	if err == nil || !strings.Contains(err.Error(), want) || printed != "" {
		t.Errorf("%v, %q", err, printed)
	}
	if speed := chain.Get(2, feetechtest.GoalSpeed, 2); speed != 0 {
		t.Errorf("the second servo keeps its speed %d", speed)
	}
}

func TestHalt_ReturnsWhenALineHangs(t *testing.T) {
	w := rigtest.NewWagon(t)
	w.Base.Mute(true)
	slow := append(w.Set, patientNeck, "robot.composite.devices[1].mcu.start_timeout_ms=10000")
	file := load(t, rigtest.WagonFile, slow...)
	w.Neck.Set(1, dynamixeltest.TorqueEnable, 1, 1)
	w.Neck.Set(1, dynamixeltest.GoalPosition, 4, 3000)
	// A SIGTERM comes when the other devices are halted.
	ctx, cancel := context.WithCancelCause(t.Context())
	terminated := errors.New("terminated")
	go func() {
		rigtest.WaitUntil(rigtest.HangGuard, func() bool {
			return w.Neck.Get(1, dynamixeltest.GoalPosition, 4) == rigtest.PanFailsafe && w.Arm.Frames(4) > 0
		})
		time.Sleep(3 * time.Second) // Robot receives their results
		cancel(terminated)
	}()
	var out bytes.Buffer
	defer func(was assembly.Hardware) { assembly.LocalHardware = was }(assembly.LocalHardware)
	assembly.LocalHardware = w.Hardware()
	err := Robot(ctx, &out, &out, file)
	if !errors.Is(err, terminated) || !strings.Contains(err.Error(), "devices[1] (base): not finished") ||
		!strings.HasPrefix(out.String(), "halted: neck, arm\n") {
		t.Errorf("%v, %q", err, out.String())
	}
}

func TestHalt_HaltsABoardThatDoesNotAnswer(t *testing.T) {
	w := rigtest.NewWagon(t)
	const board = "robot.composite.devices[1].mcu."
	slow := append(w.Set, board+"deadman_ms=60000", board+"start_timeout_ms=300", patientNeck)
	file := load(t, rigtest.WagonFile, slow...)
	patient := sections.Get[mcu.Config](rigtest.DevicesOf(file)[1].Sections)
	patient.StartTimeoutMs = 10_000 // for a busy computer
	base, err := mcu.Open(t.Context(), patient)
	fatal.If(t, err)
	fatal.If(t, errors.Join(base.Arm(), base.Write([]float64{5, 5}), base.Close()))
	w.Base.Mute(true)
	if w.Stopped("base") == nil {
		t.Fatal("the board stopped before the halt")
	}
	printed, err := haltRobot(t, w.Hardware(), file)
	if err == nil || !strings.Contains(err.Error(), "devices[1] (base): halt: mcu: ") ||
		!strings.HasPrefix(printed, "halted: neck, arm\n") {
		t.Errorf("%v, %q", err, printed)
	}
	w.WaitStopped(t, 5*time.Second, "base")
}

func TestHalt_RunsALineInOrderAndSurvivesAPanic(t *testing.T) {
	var order []string
	record := func(name string) task {
		return task{name: name, key: name, do: func(*result) error {
			if order = append(order, name); name == "b" {
				panic("in a driver")
			}
			return nil
		}}
	}
	results := haltLines(t.Context(), [][]task{{record("a"), record("b"), record("c")}})
	if strings.Join(order, "") != "abc" || results[0].err != nil || results[2].err != nil ||
		results[1].err == nil || !strings.Contains(results[1].err.Error(), "b: panic: in a driver") {
		t.Errorf("%v, %+v", order, results)
	}
}

func TestHalt_HaltsWithoutALock(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	fatal.If(t, os.WriteFile(plain, nil, 0o600))
	for set, warning := range map[string]string{
		"safety.socket=" + filepath.Join(dir, "missing", "s"): "a control process can still take the robot",
		"safety.socket=" + plain:                              "a control process can still take the robot",
		"safety.socket=":                                      "safety.socket is empty",
		"safety.group=no-such-group-here":                     "",
	} {
		w := rigtest.NewWagon(t)
		file := load(t, rigtest.WagonFile, append(w.Set, set, patientNeck)...)
		w.Neck.Set(1, dynamixeltest.TorqueEnable, 1, 1)
		printed, err := haltRobot(t, w.Hardware(), file)
		words := strings.Join(strings.Fields(printed), " ")
		if err != nil || !strings.Contains(words, warning) || strings.Contains(words, "warning") != (warning != "") ||
			!strings.Contains(printed, "halted: base, neck, arm\n") {
			t.Errorf("%s: %v, %q", set, err, printed)
		}
	}
}

func TestHalt_HaltsDespiteAMissingDeviceAndASensor(t *testing.T) {
	w := rigtest.NewWagon(t)
	w.Rig.Imu.Unplugged = true
	w.Unplug("base")
	w.Neck.Set(1, dynamixeltest.GoalPosition, 4, 3000)
	w.Neck.Set(1, dynamixeltest.TorqueEnable, 1, 1)
	printed, err := haltRobot(t, w.Hardware(), load(t, rigtest.WagonFile, append(w.Set, patientNeck)...))
	if err == nil || !strings.Contains(err.Error(), "devices[1] (base)") ||
		!strings.Contains(printed, "halted: neck, arm\n") {
		t.Errorf("%v, %q", err, printed)
	}
	for _, note := range []string{"\nneck: tilt: ", "\narm: shoulder: ", "\narm: elbow: "} {
		_, text, _ := strings.Cut(printed, note)
		if line, _, _ := strings.Cut(text, "\n"); !strings.Contains(line, "limp") {
			t.Errorf("no %q that is limp in %q", note, printed)
		}
	}
	fatal.If(t, w.Stopped("neck"))
}

func TestHalt_NamesWhyNothingIsHalted(t *testing.T) {
	for set, reason := range map[string]string{
		"run.shadow=true": "run.shadow", "run.lockstep=true": "run.lockstep", "run.seed=1": "robot.driver is rover",
	} {
		printed, err := haltRobot(t, assembly.LocalHardware, load(t, "rover", set))
		if err != nil || !strings.HasPrefix(printed, "nothing to halt: "+reason) {
			t.Errorf("%s: %v, %q", set, err, printed)
		}
	}
}
