package mcu_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/hal/devicetest"
	"optibfm/hal/mcu"
	"optibfm/hal/mcu/mcutest"
	"optibfm/hal/monotonic"
	"optibfm/hal/serial"
	"optibfm/hal/serial/serialtest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

var (
	_ hal.Device       = (*mcu.Device)(nil)
	_ hal.DeadmanTimer = (*mcu.Device)(nil)
	_ hal.FaultCounter = (*mcu.Device)(nil)
)

// board is a running firmware, in Go or in C.
type board struct {
	path  string
	estop func(pressed bool)
}

func newBoard(t *testing.T, f mcutest.Firmware) *mcutest.Board {
	t.Helper()
	b, err := mcutest.New(f)
	fatal.If(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func inGo(t *testing.T) board {
	b := newBoard(t, mcutest.Rover())
	return board{b.Path, func(pressed bool) {
		if pressed {
			b.Fault(mcutest.CauseEStop)
		} else {
			b.Clear()
		}
	}}
}

var compiled string // the folder of the compiled C firmware

// program is the C firmware, compiled once.
var program = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "firmware")
	if err != nil {
		return "", err
	}
	compiled = folder
	path := filepath.Join(folder, "rover")
	flags := []string{
		"-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-O1", "-o", path, "testdata/rover.c",
	}
	sanitizers := []string{"-fsanitize=address,undefined", "-fno-sanitize-recover"}
	if exec.Command("cc", append(sanitizers, flags...)...).Run() == nil {
		return path, nil
	}
	out, err := exec.Command("cc", flags...).CombinedOutput() // this compiler may have no sanitizers
	if err != nil {
		return "", fmt.Errorf("compile the firmware: %s", out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if compiled != "" {
		_ = os.RemoveAll(compiled)
	}
	os.Exit(code)
}

func hasCC() error {
	_, err := exec.LookPath("cc")
	return err
}

// inC runs the reference firmware.
func inC(t *testing.T) board {
	if hasCC() != nil {
		t.Skip("no C compiler (cc): the C firmware is not tested")
	}
	path, err := program()
	fatal.If(t, err)
	line, err := serialtest.Open()
	fatal.If(t, err)
	blocking, err := syscall.Dup(int(line.Fd())) // Fd makes it blocking, as the program requires
	fatal.If(t, err)
	uart := os.NewFile(uintptr(blocking), "uart")
	firmware := exec.Command(path)
	firmware.Stdin, firmware.Stdout = uart, uart
	var stderr strings.Builder
	firmware.Stderr = &stderr
	fatal.If(t, firmware.Start())
	_ = uart.Close()
	t.Cleanup(func() {
		_ = firmware.Process.Kill()
		_ = firmware.Wait()
		_ = line.Close()
		if stderr.Len() > 0 {
			t.Errorf("the firmware wrote to stderr: %s", stderr.String())
		}
	})
	return board{line.Path, func(pressed bool) {
		signal := syscall.SIGUSR1
		if !pressed {
			signal = syscall.SIGUSR2
		}
		errtest.Nil(t, firmware.Process.Signal(signal))
	}}
}

func onBoth(t *testing.T, test func(t *testing.T, b board)) {
	t.Run("Go", func(t *testing.T) { test(t, inGo(t)) })
	t.Run("C", func(t *testing.T) { test(t, inC(t)) })
}

func open(t *testing.T, c mcu.Config) *mcu.Device {
	t.Helper()
	d, err := mcu.Open(t.Context(), c)
	fatal.If(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// guard is the time limit of waits that end early unless the test fails.
const guard = 2 * time.Minute

// config has times that a busy machine meets: nothing waits for them unless it fails.
func config(path string) mcu.Config {
	return mcu.Config{
		Port:      serial.Config{Path: path, Baud: 921_600},
		TimeoutMs: 5000, StaleMs: 5000, DeadmanMs: 5000, StartTimeoutMs: 20_000,
	}
}

// next waits for a sample that ok accepts.
func next(t *testing.T, d *mcu.Device, ok func(sample []float64) bool) []float64 {
	t.Helper()
	sample := make([]float64, len(d.Inputs()))
	for end := time.Now().Add(guard); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if _, err := d.Read(sample); err == nil && ok(sample) {
			return sample
		}
	}
	t.Fatalf("no such sample; the latest is %v", sample)
	return nil
}

func anySample(_ []float64) bool { return true }

func TestFirmware_HeaderCompilesAsCPlusPlus(t *testing.T) {
	if _, err := exec.LookPath("c++"); err != nil {
		t.Skip("no C++ compiler (c++): the header is not tested as C++")
	}
	flags := []string{"-std=c++11", "-Wall", "-Wextra", "-Werror", "-Ifirmware", "-fsyntax-only", "-x", "c++", "-"}
	compile := exec.Command("c++", flags...)
	compile.Stdin = strings.NewReader("#define OPTIBFM_MCU_MAX_CHANNELS 4\n" +
		"#define OPTIBFM_MCU_IMPLEMENTATION\n#include \"optibfm_mcu.h\"\n")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Errorf("%s", out)
	}
}

func TestDevice(t *testing.T) {
	devicetest.Run(t, func(t *testing.T, timeoutMs float64) devicetest.Rig {
		b := newBoard(t, mcutest.Rover())
		c := config(b.Path)
		if timeoutMs == devicetest.Brief {
			c.TimeoutMs, c.StaleMs = timeoutMs, 1
		}
		d := open(t, c)
		next(t, d, anySample)
		if timeoutMs == devicetest.Brief {
			c.StartTimeoutMs = timeoutMs
		}
		return devicetest.Rig{
			Device: d, Goals: []float64{2.5, -1}, Stop: []float64{0, 0},
			Moves:  func() bool { outputs, armed := b.Outputs(); return armed && outputs[0] == 2.5 },
			Again:  func() (hal.Device, error) { return mcu.Open(t.Context(), c) },
			Unplug: func() { _ = b.Close() },
			Faults: []devicetest.Fault{{
				Name: "silent", Break: func() { b.Mute(true); waitStale(t, d) },
				Read: hal.ErrStale, Halt: hal.ErrTimeout, Arm: hal.ErrTimeout,
			}},
		}
	})
}

func TestOpen_ReadsChannelsFromFirmware(t *testing.T) {
	onBoth(t, func(t *testing.T, b board) {
		d := open(t, config(b.path))
		rover := mcutest.Rover()
		if !strings.HasPrefix(d.Name(), "rover in ") {
			t.Errorf("%q", d.Name())
		}
		if !slices.Equal(d.Inputs(), rover.Inputs) || !slices.Equal(d.Outputs(), rover.Outputs) {
			t.Errorf("%v, %v", d.Inputs(), d.Outputs())
		}
	})
}

func TestDevice_MovesOnlyWhileArmed(t *testing.T) {
	onBoth(t, func(t *testing.T, b board) {
		d := open(t, config(b.path))
		if err := d.Write([]float64{9, 9}); err != nil {
			t.Fatalf("write before Arm: %v", err)
		}
		if s := next(t, d, anySample); s[2] != 0 || s[4] != 12 {
			t.Errorf("halted: %v", s)
		}
		fatal.If(t, d.Arm())
		if d.Deadman() != 5*time.Second || d.Cause() != 0 {
			t.Errorf("deadman %v, cause %d", d.Deadman(), d.Cause())
		}
		fatal.If(t, d.Write([]float64{2.5, -1}))
		errtest.NotNil(t, d.Write([]float64{0, 1e300}), "a value beyond float32 was sent")
		s := next(t, d, func(s []float64) bool { return s[0] > 0 })
		if s[2] != 2.5 || s[3] != -1 || s[1] >= 0 {
			t.Errorf("armed: %v", s)
		}
		fatal.If(t, d.Halt([]float64{0, 0.25}))
		if s := next(t, d, func(s []float64) bool { return s[3] == 0.25 }); s[2] != 0 {
			t.Errorf("failsafe: %v", s)
		}
		if d.Cause() != mcutest.CauseHalt || d.Deadman() != 0 {
			t.Errorf("cause %d, deadman %v", d.Cause(), d.Deadman())
		}
		if d.Faults() != (hal.Faults{}) {
			t.Errorf("%+v", d.Faults())
		}
		if from, to := d.Lost(); from != 0 || to != 0 {
			t.Errorf("lost %d, %d", from, to)
		}
	})
}

func TestFirmware_HaltsAfterDeadman(t *testing.T) {
	onBoth(t, func(t *testing.T, b board) {
		c := config(b.path)
		c.DeadmanMs = 1000 // a busy machine delivers the sample after Write within that time
		d := open(t, c)
		fatal.If(t, d.Arm())
		fatal.If(t, d.Write([]float64{3, 3}))
		next(t, d, func(s []float64) bool { return s[2] == 3 })
		next(t, d, func(s []float64) bool { return s[2] == 0 })
		if d.Cause() != mcutest.CauseDeadman {
			t.Errorf("cause %d", d.Cause())
		}
		errtest.Is(t, d.Write([]float64{3, 3}), hal.ErrDevice, "write to a halted firmware")
		fatal.If(t, d.Arm())
		errtest.Nil(t, d.Write([]float64{3, 3}))
	})
}

func TestDevice_ArmFailsDuringEmergencyStop(t *testing.T) {
	onBoth(t, func(t *testing.T, b board) {
		d := open(t, config(b.path))
		fatal.If(t, d.Arm())
		b.estop(true)
		next(t, d, func(s []float64) bool { return d.Cause() == mcutest.CauseEStop && s[5] == 0 })
		errtest.Is(t, d.Write([]float64{1, 1}), hal.ErrDevice)
		errtest.Is(t, d.Arm(), hal.ErrDevice)
		errtest.Nil(t, d.Halt([]float64{0, 0}))
		b.estop(false)
		next(t, d, func(s []float64) bool { return s[5] == 1 && d.Arm() == nil })
	})
}

func TestDevice_SampleTimesAreHostTimesAndNeverDecrease(t *testing.T) {
	onBoth(t, func(t *testing.T, b board) { // the C firmware's clock wraps 0.3 s after its start
		d := open(t, config(b.path))
		next(t, d, anySample)
		sample := make([]float64, 6)
		var before int64
		for range 250 {
			at, err := d.Read(sample)
			fatal.If(t, err)
			if now := monotonic.Now(); at < before || at > now {
				t.Fatalf("sample of %d after one of %d, the time is %d", at, before, now)
			}
			before = at
			time.Sleep(2 * time.Millisecond)
		}
	})
}

func TestFirmware_SurvivesGarbage(t *testing.T) {
	onBoth(t, func(t *testing.T, b board) {
		port, err := serial.Open(serial.Config{Path: b.path})
		fatal.If(t, err)
		noise := make([]byte, 3000)
		x := uint32(1)
		for i := range noise {
			x = x*1664525 + 1013904223
			noise[i] = byte(x >> 24)
		}
		for kind := range byte(6) { // messages of wrong lengths, with a good CRC
			noise = mcu.AppendFrame(append(noise, 0), mcu.Frame{Type: kind, Payload: make([]byte, int(kind)*3)})
			noise = mcu.AppendFrame(noise, mcu.Frame{Type: kind})
		}
		fatal.If(t, port.Write(noise, monotonic.After(guard)))
		_ = port.Close()
		d := open(t, config(b.path))
		errtest.Nil(t, d.Arm())
	})
}

func TestDevice_CountsLostAndDamagedFrames(t *testing.T) {
	b := newBoard(t, mcutest.Rover())
	d := open(t, config(b.Path))
	next(t, d, anySample)
	b.Drop(3)
	lost := func(n uint64) func([]float64) bool {
		return func([]float64) bool { from, _ := d.Lost(); return from >= n }
	}
	next(t, d, lost(3))
	b.Garble(2)
	next(t, d, func([]float64) bool { f := d.Faults(); return f.Checksum+f.Protocol >= 2 })
	next(t, d, lost(5))
}

func TestDevice_ReportsStaleSampleAndTriesHaltTwice(t *testing.T) {
	b := newBoard(t, mcutest.Rover())
	c := config(b.Path)
	c.StaleMs, c.TimeoutMs = 1, 30
	d := open(t, c)
	b.Mute(true)
	waitStale(t, d)
	errtest.Is(t, d.Halt([]float64{0.5, 0}), hal.ErrTimeout)
	if d.Faults() != (hal.Faults{Stale: 1, Timeout: 2}) {
		t.Errorf("%+v", d.Faults())
	}
	waitHalted(t, b, 0.5)
}

func TestHaltBoard_HaltsBoardWithoutValidAnswers(t *testing.T) {
	const (
		given = 0.5 // the failsafe given to HaltBoard
		own   = 0   // the board's
		// brief limits waits that pass: the board never answers. HALT still reaches it.
		brief = 100
	)
	instead := func(message byte, payload string) func(*mcutest.Board) {
		return func(b *mcutest.Board) { b.Instead(message, []byte(payload)) }
	}
	for name, c := range map[string]struct {
		fail     func(*mcutest.Board)
		change   func(*mcu.Config)
		failsafe float32
		want     string // in the error; "": none
	}{
		"well":         {failsafe: given},
		"late answers": {fail: func(b *mcutest.Board) { b.Late(lateAnswer) }, failsafe: given},
		"mute": {
			fail:     func(b *mcutest.Board) { b.Mute(true) },
			change:   func(c *mcu.Config) { c.StartTimeoutMs, c.TimeoutMs = brief, brief },
			failsafe: given, want: "halt sent without an answer",
		},
		"answers about another channel": {
			fail:     instead(mcu.Channel, "\x01other\x00"),
			change:   func(c *mcu.Config) { c.StartTimeoutMs = brief },
			failsafe: given, want: "halt sent without an answer",
		},
		"invalid welcome": {
			fail: instead(mcu.Welcome, "\x01\x31\x02"), failsafe: given, want: "halt sent without an answer",
		},
		"empty welcome": {fail: instead(mcu.Welcome, ""), failsafe: given, want: "halt sent without an answer"},
		"unreadable names": {
			fail: instead(mcu.Channel, "\x00\x07\x00"), failsafe: given, want: "halt sent without an answer"},
		"another version": {fail: func(b *mcutest.Board) { b.Version(2) }, failsafe: own, want: "version 2"},
		"other outputs": {
			change:   func(c *mcu.Config) { c.DeclaredOutputs = []mcu.Declared{{Name: "left_velocity"}} },
			failsafe: own, want: "the firmware's are not",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(t, mcutest.Rover())
			leaveTurning(t, b.Path)
			cfg := config(b.Path)
			if c.change != nil {
				c.change(&cfg)
			}
			if c.fail != nil {
				c.fail(b)
			}
			err := mcu.HaltBoard(cfg, []float64{given, 0})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: no %q", err, c.want)
			}
			waitHalted(t, b, c.failsafe)
		})
	}
}

// waitStale reads until the newest sample of a mute board is stale.
func waitStale(t *testing.T, d *mcu.Device) {
	t.Helper()
	for end := time.Now().Add(guard); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err := d.Read(make([]float64, len(d.Inputs()))); errors.Is(err, hal.ErrStale) {
			return
		}
	}
	t.Fatal("the sample is not stale")
}

// waitHalted waits until a board has executed HALT.
func waitHalted(t *testing.T, b *mcutest.Board, failsafe float32) {
	t.Helper()
	for end := time.Now().Add(guard); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if outputs, armed := b.Outputs(); !armed && outputs[0] == failsafe {
			return
		}
	}
	outputs, armed := b.Outputs()
	t.Errorf("armed %v, outputs %v", armed, outputs)
}

// lateAnswer is longer than the interval of repeated requests.
const lateAnswer = 150 * time.Millisecond

func TestOpen_AcceptsLateAnswers(t *testing.T) {
	b := newBoard(t, mcutest.Rover())
	b.Late(lateAnswer)
	d := open(t, config(b.Path))
	if rover := mcutest.Rover(); !slices.Equal(d.Inputs(), rover.Inputs) || !slices.Equal(d.Outputs(), rover.Outputs) {
		t.Errorf("%v, %v", d.Inputs(), d.Outputs())
	}
}

func TestHaltBoard_UsesBoardFailsafeForInvalidOne(t *testing.T) {
	for wantText, failsafe := range map[string][]float64{
		"it has 2 outputs, not 1": {1},
		"not finite":              {1, math.NaN()},
	} {
		t.Run(wantText, func(t *testing.T) {
			onBoth(t, func(t *testing.T, b board) {
				leaveTurning(t, b.path)
				errtest.Contains(t, mcu.HaltBoard(config(b.path), failsafe), wantText)
				d := open(t, config(b.path))
				if s := next(t, d, anySample); d.Cause() != mcutest.CauseHalt || s[2] != 0 {
					t.Errorf("cause %d, %v", d.Cause(), s)
				}
			})
		})
	}
}

func TestHaltBoard_ReportsUnpluggedBoard(t *testing.T) {
	line, err := serialtest.Open()
	fatal.If(t, err)
	pulled := make(chan struct{})
	go func() {
		defer close(pulled)
		_, _ = line.Read(make([]byte, 1)) // HELLO
		_ = line.Close()
	}()
	err = mcu.HaltBoard(config(line.Path), []float64{0, 0})
	if !errors.Is(err, hal.ErrBus) || !strings.HasSuffix(err.Error(), "(halt could not be sent)") {
		t.Error(err)
	}
	<-pulled
}

func TestHaltBoard_ReportsMissingPort(t *testing.T) {
	errtest.Contains(t, mcu.HaltBoard(config("/dev/none"), []float64{0, 0}), "/dev/none")
}

// leaveTurning leaves a board as a killed program does while the wheels turn.
func leaveTurning(t *testing.T, path string) {
	t.Helper()
	c := config(path)
	c.DeadmanMs = 60_000
	d, err := mcu.Open(t.Context(), c)
	fatal.If(t, err)
	defer d.Close()
	fatal.If(t, d.Arm())
	fatal.If(t, d.Write([]float64{5, 5}))
	next(t, d, func(s []float64) bool { return s[2] == 5 })
}

func TestDevice_HaltFailsUnlessBoardReportsHalted(t *testing.T) {
	b := newBoard(t, mcutest.Rover())
	d := open(t, config(b.Path))
	fatal.If(t, d.Arm())
	b.Stubborn(true)
	errtest.Is(t, d.Halt([]float64{0, 0}), hal.ErrDevice, "halt")
	b.Stubborn(false)
	errtest.Nil(t, d.Halt([]float64{0, 0}))
}

func TestDevice_RepeatsHaltWhenAnswerIsLost(t *testing.T) {
	b := newBoard(t, mcutest.Rover())
	c := config(b.Path)
	c.TimeoutMs = 500
	d := open(t, c)
	b.DropStates(1)
	fatal.If(t, d.Halt([]float64{0, 0}))
	if f := d.Faults(); f.Recovered != 1 || f.Timeout != 1 {
		t.Errorf("%+v", f)
	}
}

func TestDevice_WriteFailsAfterBoardRestart(t *testing.T) {
	b := newBoard(t, mcutest.Rover())
	d := open(t, config(b.Path))
	fatal.If(t, d.Arm())
	b.Restart()
	next(t, d, func([]float64) bool { return d.Cause() == mcutest.CauseBoot })
	errtest.Is(t, d.Write([]float64{1, 1}), hal.ErrDevice)
}

func TestDevice_DeadmanAppliesTheFailsafeOfTheFirstArm(t *testing.T) {
	onBoth(t, func(t *testing.T, b board) {
		c := config(b.path)
		c.DeadmanMs = 1000
		d := open(t, c)
		fatal.If(t, d.SetFailsafe([]float64{0.5, -0.5}))
		fatal.If(t, d.Arm())
		if s := next(t, d, func(s []float64) bool { return s[2] != 0 }); s[2] != 0.5 || s[3] != -0.5 {
			t.Errorf("armed, before a command: %v", s)
		}
		fatal.If(t, d.Write([]float64{3, 3}))
		next(t, d, func(s []float64) bool { return s[2] == 3 })
		s := next(t, d, func(s []float64) bool { return s[2] != 3 }) // as after a kill
		if s[2] != 0.5 || s[3] != -0.5 || d.Cause() != mcutest.CauseDeadman {
			t.Errorf("%v, cause %d", s, d.Cause())
		}
	})
}

func TestDevice_WithoutInputsReportsItsDeadman(t *testing.T) {
	f := mcutest.Rover()
	f.Inputs, f.Step = nil, func(float64, []float32, []float32) {}
	b := newBoard(t, f)
	d := open(t, config(b.Path))
	fatal.If(t, errors.Join(d.Arm(), d.Write([]float64{1, 1})))
	b.Fault(mcutest.CauseDeadman)
	next(t, d, func([]float64) bool { return d.Cause() == mcutest.CauseDeadman })
	errtest.Is(t, d.Write([]float64{1, 1}), hal.ErrDevice, "write to the halted board")
}

func TestDevice_HaltsBoardThatReturns(t *testing.T) {
	b, err := mcutest.New(mcutest.Rover())
	fatal.If(t, err)
	port := serialtest.Link(t, b.Path)
	d := open(t, config(port.Path))
	fatal.If(t, d.Arm())
	_ = b.Close()
	if err := d.Halt([]float64{0, 0}); !errors.Is(err, hal.ErrBus) {
		t.Fatalf("halt of an unplugged board: %v", err)
	}
	again := newBoard(t, mcutest.Rover())
	port.Point(t, again.Path)
	serialtest.HaltAgain(t, d, []float64{0.25, 0.25})
	if outputs, _ := again.Outputs(); outputs[0] != 0.25 {
		t.Errorf("outputs %v", outputs)
	}
	errtest.Nil(t, d.Arm(), "arm")
}

func TestOpen_RefusesOtherChannelsThanDeclared(t *testing.T) {
	b := newBoard(t, mcutest.Rover())
	c := config(b.Path)
	c.DeclaredOutputs = []mcu.Declared{{Name: "left_velocity", Unit: "rad/s"}, {Name: "right_velocity", Unit: "rad/s"}}
	d, err := mcu.Open(t.Context(), c)
	fatal.If(t, err)
	if !slices.Equal(c.Outputs(), d.Outputs()) {
		t.Errorf("%v, the device has %v", c.Outputs(), d.Outputs())
	}
	_ = d.Close()
	c.DeclaredOutputs[0].Unit = "m/s"
	_, err = mcu.Open(t.Context(), c)
	for _, want := range []string{
		"firmware: [{name: left_velocity, unit: rad/s}", "configuration: [{name: left_velocity, unit: m/s}",
	} {
		errtest.Contains(t, err, want)
	}
	c.DeclaredOutputs[0].Name = "right_velocity"
	errtest.Contains(t, c.Validate(), "given twice")
}

func TestOpen_RefusesOtherVersionSilenceAndDuplicateNames(t *testing.T) {
	b := newBoard(t, mcutest.Rover())
	b.Version(2)
	errtest.Contains(t, errtest.Of(mcu.Open(t.Context(), config(b.Path))), "version 2")
	b.Mute(true)
	c := config(b.Path)
	c.StartTimeoutMs = 30
	errtest.Is(t, errtest.Of(mcu.Open(t.Context(), c)), hal.ErrTimeout)
	b.Mute(false)
	b.Version(mcu.Version)
	twice := mcutest.Rover()
	twice.Inputs[1].Name = twice.Inputs[0].Name
	same := newBoard(t, twice)
	if _, err := mcu.Open(t.Context(), config(same.Path)); err == nil {
		t.Error("two channels of one name were accepted")
	}
}

func TestConfig_RefusesInvalidSettings(t *testing.T) {
	for _, c := range []mcu.Config{
		{},
		{Port: serial.Config{Path: "x"}, DeadmanMs: 1.5},
		{Port: serial.Config{Path: "x"}, DeadmanMs: -1},
		{Port: serial.Config{Path: "x"}, StaleMs: math.NaN()},
		{Port: serial.Config{Path: "x"}, TimeoutMs: 1e9},
	} {
		if c.Validate() == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

func TestOpen_EndsWithItsContext(t *testing.T) {
	line, err := serialtest.Open()
	fatal.If(t, err)
	defer line.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = line.Read(make([]byte, 1)) // the first request, which has no answer
		cancel()
	}()
	c := config(line.Path)
	c.StartTimeoutMs = 20_000
	errtest.Is(t, errtest.Of(mcu.Open(ctx, c)), context.Canceled)
}
