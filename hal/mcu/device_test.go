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
	"optibfm/hal/mcu"
	"optibfm/hal/mcu/mcutest"
	"optibfm/hal/monotonic"
	"optibfm/hal/serial"
	"optibfm/hal/serial/serialtest"
)

var (
	_ hal.Device   = (*mcu.Device)(nil)
	_ hal.Guarded  = (*mcu.Device)(nil)
	_ hal.Counting = (*mcu.Device)(nil)
)

// board is what both firmwares can be told.
type board struct {
	path  string
	estop func(pressed bool)
}

func inGo(t *testing.T) board {
	b, err := mcutest.New(mcutest.Rover())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return board{b.Path, func(pressed bool) {
		if pressed {
			b.Fault(mcutest.CauseEStop)
		} else {
			b.Clear()
		}
	}}
}

var compiled string // the folder of the C firmware, once there is one

// program is the C firmware, compiled once.
var program = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "firmware")
	if err != nil {
		return "", err
	}
	compiled = folder
	path := filepath.Join(folder, "rover")
	flags := []string{"-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-O1", "-o", path, "testdata/rover.c"}
	if exec.Command("cc", append([]string{"-fsanitize=address,undefined", "-fno-sanitize-recover"}, flags...)...).Run() == nil {
		return path, nil
	}
	out, err := exec.Command("cc", flags...).CombinedOutput() // this compiler may have no sanitizers
	if err != nil {
		return "", fmt.Errorf("the firmware does not compile: %s", out)
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
		t.Skip("there is no C compiler (cc): the C firmware is not tested here")
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	line, err := serialtest.Open()
	if err != nil {
		t.Fatal(err)
	}
	blocking, err := syscall.Dup(int(line.Fd())) // Fd makes it blocking, as the program wants it
	if err != nil {
		t.Fatal(err)
	}
	uart := os.NewFile(uintptr(blocking), "uart")
	firmware := exec.Command(path)
	firmware.Stdin, firmware.Stdout = uart, uart
	var complaints strings.Builder
	firmware.Stderr = &complaints
	if err := firmware.Start(); err != nil {
		t.Fatal(err)
	}
	_ = uart.Close()
	t.Cleanup(func() {
		_ = firmware.Process.Kill()
		_ = firmware.Wait()
		_ = line.Close()
		if complaints.Len() > 0 {
			t.Errorf("the firmware said: %s", complaints.String())
		}
	})
	return board{line.Path, func(pressed bool) {
		signal := syscall.SIGUSR1
		if !pressed {
			signal = syscall.SIGUSR2
		}
		if err := firmware.Process.Signal(signal); err != nil {
			t.Error(err)
		}
	}}
}

func onBoth(t *testing.T, test func(t *testing.T, b board)) {
	t.Run("Go", func(t *testing.T) { test(t, inGo(t)) })
	t.Run("C", func(t *testing.T) { test(t, inC(t)) })
}

func open(t *testing.T, c mcu.Config) *mcu.Device {
	t.Helper()
	d, err := mcu.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func config(path string) mcu.Config {
	return mcu.Config{Port: serial.Config{Path: path, Baud: 921_600}, TimeoutMs: 200, StaleMs: 500, DeadmanMs: 500}
}

// next waits for a sample of which ok is true, and gives it.
func next(t *testing.T, d *mcu.Device, ok func(sample []float64) bool) []float64 {
	t.Helper()
	sample := make([]float64, len(d.Inputs()))
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if _, err := d.Read(sample); err == nil && ok(sample) {
			return sample
		}
	}
	t.Fatalf("no such sample came; the last was %v", sample)
	return nil
}

func whatever(_ []float64) bool { return true }

func TestTheHeaderIsAlsoCPlusPlus(t *testing.T) {
	if _, err := exec.LookPath("c++"); err != nil {
		t.Skip("there is no C++ compiler (c++): Arduino's language is not tested here")
	}
	compile := exec.Command("c++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-Ifirmware", "-fsyntax-only", "-x", "c++", "-")
	compile.Stdin = strings.NewReader("#define OPTIBFM_MCU_MAX_CHANNELS 4\n#define OPTIBFM_MCU_IMPLEMENTATION\n#include \"optibfm_mcu.h\"\n")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Errorf("%s", out)
	}
}

func TestTheFirmwareTellsItsChannels(t *testing.T) {
	onBoth(t, func(t *testing.T, b board) {
		d := open(t, config(b.path))
		rover := mcutest.Rover()
		if !strings.HasPrefix(d.Name(), "rover in ") {
			t.Errorf("%q", d.Name())
		}
		for i, s := range d.Inputs() {
			if s != rover.Inputs[i] {
				t.Errorf("input %d: %v", i, s)
			}
		}
		for i, s := range d.Outputs() {
			if s != rover.Outputs[i] {
				t.Errorf("output %d: %v", i, s)
			}
		}
		if len(d.Inputs()) != 6 || len(d.Outputs()) != 2 {
			t.Error("some are missing")
		}
	})
}

func TestWheelsTurnOnlyWhileArmed(t *testing.T) {
	onBoth(t, func(t *testing.T, b board) {
		d := open(t, config(b.path))
		if err := d.Write([]float64{9, 9}); err != nil {
			t.Fatalf("a robot at rest before Arm: %v", err)
		}
		if s := next(t, d, whatever); s[2] != 0 || s[4] != 12 {
			t.Errorf("halted: %v", s)
		}
		if err := d.Arm(); err != nil {
			t.Fatal(err)
		}
		if d.Deadman() != 500*time.Millisecond || d.Cause() != 0 {
			t.Errorf("deadman %v, cause %d", d.Deadman(), d.Cause())
		}
		if err := d.Write([]float64{2.5, -1}); err != nil {
			t.Fatal(err)
		}
		s := next(t, d, func(s []float64) bool { return s[0] > 0 })
		if s[2] != 2.5 || s[3] != -1 || s[1] >= 0 {
			t.Errorf("armed: %v", s)
		}
		if err := d.Halt([]float64{0, 0.25}); err != nil {
			t.Fatal(err)
		}
		if s := next(t, d, func(s []float64) bool { return s[3] == 0.25 }); s[2] != 0 {
			t.Errorf("failsafe: %v", s)
		}
		if d.Cause() != mcutest.CauseHalt || d.Deadman() != 0 {
			t.Errorf("cause %d, deadman %v", d.Cause(), d.Deadman())
		}
		if d.Faults() != (hal.Faults{}) {
			t.Errorf("%+v", d.Faults())
		}
		if here, there := d.Lost(); here != 0 || there != 0 {
			t.Errorf("lost %d, %d", here, there)
		}
	})
}

func TestSilenceHaltsTheFirmwareByItself(t *testing.T) {
	onBoth(t, func(t *testing.T, b board) {
		c := config(b.path)
		c.DeadmanMs = 200
		d := open(t, c)
		if err := d.Arm(); err != nil {
			t.Fatal(err)
		}
		if err := d.Write([]float64{3, 3}); err != nil {
			t.Fatal(err)
		}
		next(t, d, func(s []float64) bool { return s[2] == 3 })
		next(t, d, func(s []float64) bool { return s[2] == 0 })
		if d.Cause() != mcutest.CauseDeadman {
			t.Errorf("cause %d", d.Cause())
		}
		if err := d.Write([]float64{3, 3}); !errors.Is(err, hal.ErrDevice) {
			t.Errorf("write to a firmware that has halted: %v", err)
		}
		if err := d.Arm(); err != nil {
			t.Fatal(err)
		}
		if err := d.Write([]float64{3, 3}); err != nil {
			t.Error(err)
		}
	})
}

func TestAnEmergencyStopCannotBeArmedAway(t *testing.T) {
	onBoth(t, func(t *testing.T, b board) {
		d := open(t, config(b.path))
		if err := d.Arm(); err != nil {
			t.Fatal(err)
		}
		b.estop(true)
		next(t, d, func(s []float64) bool { return d.Cause() == mcutest.CauseEStop && s[5] == 0 })
		if err := d.Write([]float64{1, 1}); !errors.Is(err, hal.ErrDevice) {
			t.Error(err)
		}
		if err := d.Arm(); !errors.Is(err, hal.ErrDevice) {
			t.Error(err)
		}
		if err := d.Halt([]float64{0, 0}); err != nil {
			t.Error(err)
		}
		b.estop(false)
		next(t, d, func(s []float64) bool { return s[5] == 1 && d.Arm() == nil })
	})
}

func TestSampleTimesAreOfTheHostsClockAndNeverGoBack(t *testing.T) {
	onBoth(t, func(t *testing.T, b board) { // the C firmware's clock wraps 0.3 s after its start
		d := open(t, config(b.path))
		next(t, d, whatever)
		sample := make([]float64, 6)
		var before int64
		for range 250 {
			at, err := d.Read(sample)
			if err != nil {
				t.Fatal(err)
			}
			if now := monotonic.Now(); at < before || at > now || now-at > int64(300*time.Millisecond) {
				t.Fatalf("sample of %d after one of %d, it is %d", at, before, now)
			}
			before = at
			time.Sleep(2 * time.Millisecond)
		}
	})
}

func TestGarbageDoesNotUpsetTheFirmware(t *testing.T) {
	onBoth(t, func(t *testing.T, b board) {
		port, err := serial.Open(serial.Config{Path: b.path})
		if err != nil {
			t.Fatal(err)
		}
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
		if err := port.Write(noise, monotonic.After(time.Second)); err != nil {
			t.Fatal(err)
		}
		_ = port.Close()
		d := open(t, config(b.path))
		if err := d.Arm(); err != nil {
			t.Error(err)
		}
	})
}

func TestLostAndDamagedFramesAreCounted(t *testing.T) {
	b, err := mcutest.New(mcutest.Rover())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	d := open(t, config(b.Path))
	next(t, d, whatever)
	b.Drop(3)
	next(t, d, func([]float64) bool { here, _ := d.Lost(); return here == 3 })
	b.Garble(2)
	next(t, d, func([]float64) bool { f := d.Faults(); return f.Checksum+f.Protocol == 2 })
	next(t, d, func([]float64) bool { here, _ := d.Lost(); return here == 5 })
}

func TestASilentBoardIsStaleAndHaltTriesTwice(t *testing.T) {
	b, err := mcutest.New(mcutest.Rover())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := config(b.Path)
	c.StaleMs, c.TimeoutMs = 30, 30
	d := open(t, c)
	next(t, d, whatever)
	if err := d.Arm(); err != nil {
		t.Fatal(err)
	}
	if err := d.Write([]float64{5, 5}); err != nil {
		t.Fatal(err)
	}
	b.Mute(true)
	time.Sleep(60 * time.Millisecond)
	if _, err := d.Read(make([]float64, 6)); !errors.Is(err, hal.ErrStale) {
		t.Error(err)
	}
	if err := d.Halt([]float64{0, 0}); !errors.Is(err, hal.ErrTimeout) {
		t.Error(err)
	}
	if d.Faults() != (hal.Faults{Stale: 1, Timeout: 2}) {
		t.Errorf("%+v", d.Faults())
	}
	if outputs, armed := b.Outputs(); armed || outputs[0] != 0 {
		t.Errorf("the board did not hear it: %v, %v", outputs, armed)
	}
}

func TestABoardWhoseProgramDiedIsHaltedAlsoWhereItOnlyHears(t *testing.T) {
	const (
		ours = 0.5 // the failsafe that HaltBoard is given
		own  = 0   // the one that the board has
	)
	for name, c := range map[string]struct {
		fail     func(*mcutest.Board)
		change   func(*mcu.Config)
		failsafe float32
		says     string
	}{
		"well":            {failsafe: ours},
		"mute":            {fail: func(b *mcutest.Board) { b.Mute(true) }, failsafe: ours, says: "told blindly"},
		"answering late":  {fail: func(b *mcutest.Board) { b.Late(lateAnswer) }, change: patient, failsafe: ours},
		"far too late":    {fail: func(b *mcutest.Board) { b.Late(time.Second) }, failsafe: ours, says: "told blindly"},
		"of some answers": {fail: func(b *mcutest.Board) { b.Instead(mcu.Channel, []byte("\x01other\x00")) }, failsafe: ours, says: "told blindly"},
		"with a damaged welcome": {fail: func(b *mcutest.Board) { b.Instead(mcu.Welcome, []byte{mcu.Version, mcu.MaxChannels + 1, 2}) },
			failsafe: ours, says: "told blindly"},
		"with an empty welcome": {fail: func(b *mcutest.Board) { b.Instead(mcu.Welcome, nil) }, failsafe: ours, says: "told blindly"},
		"with unreadable names": {fail: func(b *mcutest.Board) { b.Instead(mcu.Channel, []byte("\x00\x07\x00")) }, failsafe: ours, says: "told blindly"},
		"of another version":    {fail: func(b *mcutest.Board) { b.Version(2) }, failsafe: own, says: "version 2"},
		"with other outputs": {change: func(c *mcu.Config) { c.DeclaredOutputs = []mcu.Declared{{Name: "left_velocity"}} },
			failsafe: own, says: "the firmware's are not"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := mcutest.New(mcutest.Rover())
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			turning(t, b.Path)
			cfg := config(b.Path)
			cfg.StartTimeoutMs, cfg.TimeoutMs = 300, 30
			if c.change != nil {
				c.change(&cfg)
			}
			if c.fail != nil {
				c.fail(b)
			}
			err = mcu.HaltBoard(cfg, []float64{ours, 0})
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v, not %q", err, c.says)
			}
			if outputs, armed := b.Outputs(); armed || outputs[0] != c.failsafe {
				t.Errorf("armed %v, %v", armed, outputs)
			}
		})
	}
}

// lateAnswer is more than what a board is given before it is asked again.
const lateAnswer = 150 * time.Millisecond

// patient lets late answers still be in time.
func patient(c *mcu.Config) { c.StartTimeoutMs, c.TimeoutMs = 5000, 2000 }

func TestABoardThatAnswersLateIsOpened(t *testing.T) {
	b, err := mcutest.New(mcutest.Rover())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.Late(lateAnswer)
	c := config(b.Path)
	patient(&c)
	d := open(t, c)
	if rover := mcutest.Rover(); !slices.Equal(d.Inputs(), rover.Inputs) || !slices.Equal(d.Outputs(), rover.Outputs) {
		t.Errorf("%v, %v", d.Inputs(), d.Outputs())
	}
}

func TestABoardIsGivenNoFailsafeThatDoesNotFitAndHaltsWithItsOwn(t *testing.T) {
	for says, failsafe := range map[string][]float64{
		"it has 2 outputs, not 1": {1},
		"not finite":              {1, math.NaN()},
	} {
		t.Run(says, func(t *testing.T) {
			onBoth(t, func(t *testing.T, b board) {
				turning(t, b.path)
				if err := mcu.HaltBoard(config(b.path), failsafe); err == nil || !strings.Contains(err.Error(), says) {
					t.Error(err)
				}
				d := open(t, config(b.path))
				if s := next(t, d, whatever); d.Cause() != mcutest.CauseHalt || s[2] != 0 {
					t.Errorf("cause %d, %v", d.Cause(), s)
				}
			})
		})
	}
}

func TestABoardWhosePlugIsPulledIsNotSaidToBeTold(t *testing.T) {
	line, err := serialtest.Open()
	if err != nil {
		t.Fatal(err)
	}
	pulled := make(chan struct{})
	go func() {
		defer close(pulled)
		_, _ = line.Read(make([]byte, 1)) // HELLO
		_ = line.Close()
	}()
	err = mcu.HaltBoard(config(line.Path), []float64{0, 0})
	if !errors.Is(err, hal.ErrBus) || !strings.Contains(err.Error(), "could not be told") || strings.Contains(err.Error(), "blindly") {
		t.Error(err)
	}
	<-pulled
}

func TestABoardOnALineThatIsNotThereIsNotHalted(t *testing.T) {
	if err := mcu.HaltBoard(config("/dev/none"), []float64{0, 0}); err == nil || !strings.Contains(err.Error(), "/dev/none") {
		t.Error(err)
	}
}

// turning leaves a board as a program does that dies while the wheels turn.
func turning(t *testing.T, path string) {
	t.Helper()
	c := config(path)
	c.DeadmanMs = 60_000
	d, err := mcu.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Arm(); err != nil {
		t.Fatal(err)
	}
	if err := d.Write([]float64{5, 5}); err != nil {
		t.Fatal(err)
	}
	next(t, d, func(s []float64) bool { return s[2] == 5 })
}

func TestABoardThatAnswersAHaltAndGoesOnHasNotHalted(t *testing.T) {
	b, err := mcutest.New(mcutest.Rover())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	d := open(t, config(b.Path))
	if err := d.Arm(); err != nil {
		t.Fatal(err)
	}
	b.Stubborn(true)
	if err := d.Halt([]float64{0, 0}); !errors.Is(err, hal.ErrDevice) {
		t.Errorf("halt: %v", err)
	}
	b.Stubborn(false)
	if err := d.Halt([]float64{0, 0}); err != nil {
		t.Error(err)
	}
}

func TestHaltIsRepeatedWhenItsAnswerIsLost(t *testing.T) {
	firmware := mcutest.Rover()
	firmware.Hz = 2 // no sample takes the answer's place
	b, err := mcutest.New(firmware)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	d := open(t, config(b.Path))
	b.Drop(1)
	if err := d.Halt([]float64{0, 0}); err != nil {
		t.Fatal(err)
	}
	if f := d.Faults(); f.Mended != 1 || f.Timeout != 1 {
		t.Errorf("%+v", f)
	}
}

func TestABoardThatRestartsIsNoLongerArmed(t *testing.T) {
	b, err := mcutest.New(mcutest.Rover())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	d := open(t, config(b.Path))
	if err := d.Arm(); err != nil {
		t.Fatal(err)
	}
	b.Restart()
	next(t, d, func([]float64) bool { return d.Cause() == mcutest.CauseBoot })
	if err := d.Write([]float64{1, 1}); !errors.Is(err, hal.ErrDevice) {
		t.Error(err)
	}
}

func TestAPulledPlugIsABusError(t *testing.T) {
	b, err := mcutest.New(mcutest.Rover())
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, config(b.Path))
	_ = b.Close()
	_, readErr := d.Read(make([]float64, 6))
	for name, err := range map[string]error{"read": readErr, "write": d.Write([]float64{0, 0}), "halt": d.Halt([]float64{0, 0}), "arm": d.Arm()} {
		if !errors.Is(err, hal.ErrBus) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsNotFiniteIsNotSent(t *testing.T) {
	d := open(t, config(inGo(t).path))
	for _, v := range []float64{math.NaN(), math.Inf(1), 1e300} {
		if d.Write([]float64{0, v}) == nil {
			t.Errorf("%v was sent", v)
		}
	}
}

func TestAFirmwareWithOtherChannelsThanTheConfigurationsIsRefused(t *testing.T) {
	b, err := mcutest.New(mcutest.Rover())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := config(b.Path)
	c.DeclaredOutputs = []mcu.Declared{{Name: "left_velocity", Unit: "rad/s"}, {Name: "right_velocity", Unit: "rad/s"}}
	d, err := mcu.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.Outputs(), d.Outputs()) {
		t.Errorf("%v, the device has %v", c.Outputs(), d.Outputs())
	}
	_ = d.Close()
	c.DeclaredOutputs[0].Unit = "m/s"
	if _, err = mcu.Open(t.Context(), c); err == nil || !strings.Contains(err.Error(), "firmware: [{name: left_velocity, unit: rad/s}") || !strings.Contains(err.Error(), "configuration: [{name: left_velocity, unit: m/s}") {
		t.Error(err)
	}
	c.DeclaredOutputs[0].Name = "right_velocity"
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "given twice") {
		t.Error(err)
	}
}

func TestAnotherVersionAndNoAnswerAreRefused(t *testing.T) {
	b, err := mcutest.New(mcutest.Rover())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.Version(2)
	if _, err := mcu.Open(t.Context(), config(b.Path)); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Error(err)
	}
	b.Mute(true)
	c := config(b.Path)
	c.StartTimeoutMs = 30
	if _, err := mcu.Open(t.Context(), c); !errors.Is(err, hal.ErrTimeout) {
		t.Error(err)
	}
	b.Mute(false)
	b.Version(mcu.Version)
	twice := mcutest.Rover()
	twice.Inputs[1].Name = twice.Inputs[0].Name
	same, err := mcutest.New(twice)
	if err != nil {
		t.Fatal(err)
	}
	defer same.Close()
	if _, err := mcu.Open(t.Context(), config(same.Path)); err == nil {
		t.Error("two channels of one name were accepted")
	}
}

func TestWrongSettingsAreRefused(t *testing.T) {
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

func TestATickAllocatesNothing(t *testing.T) {
	d := open(t, config(inGo(t).path))
	next(t, d, whatever)
	if err := d.Arm(); err != nil {
		t.Fatal(err)
	}
	in, out := make([]float64, 6), []float64{1, 2}
	n := testing.AllocsPerRun(50, func() {
		if _, err := d.Read(in); err != nil {
			t.Fatal(err)
		}
		if err := d.Write(out); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	})
	if n != 0 {
		t.Errorf("%v allocations in Read and Write", n)
	}
	if n := testing.AllocsPerRun(20, func() {
		if err := d.Halt(out); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations in Halt", n)
	}
}

func TestASilentBoardMakesNoTickAllocate(t *testing.T) {
	b, err := mcutest.New(mcutest.Rover())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := config(b.Path)
	c.TimeoutMs, c.StaleMs = 10, 1
	d := open(t, c)
	b.Mute(true)
	in, out := make([]float64, 6), make([]float64, 2)
	time.Sleep(20 * time.Millisecond)
	if n := testing.AllocsPerRun(5, func() {
		if _, err := d.Read(in); !errors.Is(err, hal.ErrStale) {
			t.Fatal(err)
		}
		if err := d.Halt(out); !errors.Is(err, hal.ErrTimeout) {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkTick(b *testing.B) {
	board, err := mcutest.New(mcutest.Rover())
	if err != nil {
		b.Fatal(err)
	}
	defer board.Close()
	d, err := mcu.Open(b.Context(), config(board.Path))
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	in, out := make([]float64, 6), make([]float64, 2)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = d.Read(in)
		if err := d.Write(out); err != nil {
			b.Fatal(err)
		}
	}
}

func TestOpen_EndsWithItsContext(t *testing.T) {
	line, err := serialtest.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, _ = line.Read(make([]byte, 1)) // the first request, which has no answer
		cancel()
	}()
	c := config(line.Path)
	c.StartTimeoutMs = 20_000
	if _, err := mcu.Open(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
