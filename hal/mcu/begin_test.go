package mcu_test

import (
	"bytes"
	"errors"
	"math"
	"os/exec"
	"path/filepath"
	"testing"

	"optibfm/hal"
	"optibfm/hal/mcu"
	"optibfm/hal/mcu/mcutest"
	"optibfm/hal/serial/serialtest"
	"optibfm/internal/fatal"
)

// A program that died has left the board armed and turning.
func TestDevice_CommandsNothingBeforeArmAfterRestart(t *testing.T) {
	b := newBoard(t, mcutest.Rover())
	leaveTurning(t, b.Path)
	d := open(t, config(b.Path))
	sent := b.Commands()
	fatal.If(t, errors.Join(d.SetFailsafe([]float64{0.5, 0}), d.Write([]float64{9, 9}), d.Arm()))
	if outputs, armed := b.Outputs(); b.Commands() != sent || !armed || outputs[0] != 0.5 {
		t.Errorf("%d commands, armed %v, outputs %v", b.Commands()-sent, armed, outputs)
	}
	halt := func() error { return d.Halt([]float64{0.25, 0}) }
	if err := errors.Join(halt(), d.Write([]float64{9, 9}), halt()); err != nil || b.Commands() != sent {
		t.Errorf("%d commands, %v", b.Commands()-sent, err)
	}
}

// A board that restarted, or that returned with the port, begins with the failsafe.
func TestDevice_ArmBeginsWithFailsafeAfterRestartAndReplug(t *testing.T) {
	first, err := mcutest.New(mcutest.Rover())
	fatal.If(t, err)
	port := serialtest.Link(t, first.Path)
	d := open(t, config(port.Path))
	begins := func(b *mcutest.Board) {
		t.Helper()
		fatal.If(t, d.Arm())
		if outputs, armed := b.Outputs(); !armed || outputs[0] != 0.5 {
			t.Errorf("armed %v, outputs %v", armed, outputs)
		}
	}
	fatal.If(t, d.SetFailsafe([]float64{0.5, 0}))
	begins(first)
	first.Restart()
	begins(first)
	_ = first.Close()
	if err := d.Halt([]float64{0, 0}); !errors.Is(err, hal.ErrBus) {
		t.Fatalf("halt of an unplugged board: %v", err)
	}
	second := newBoard(t, mcutest.Rover())
	port.Point(t, second.Path)
	serialtest.HaltAgain(t, d, []float64{0, 0})
	begins(second)
}

func appendFloat(dst []byte, v float32) []byte {
	bits := math.Float32bits(v)
	return append(dst, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
}

func TestFirmware_PowersActuatorsAtFirstCommand(t *testing.T) {
	if hasCC() != nil {
		t.Skip("no C compiler (cc): the C firmware is not tested")
	}
	path := filepath.Join(t.TempDir(), "power")
	if out, err := exec.Command("cc", "-std=c99", "-o", path, "testdata/power.c").CombinedOutput(); err != nil {
		t.Fatalf("%s", out)
	}
	deadman := []byte{200, 0}
	frames := []mcu.Frame{
		{Type: mcu.Halt, Payload: appendFloat(nil, 0.5)},
		{Type: mcu.Arm, Payload: deadman},
		{Type: mcu.Command, Payload: appendFloat(deadman, 2)},
		{Type: mcu.Halt},
	}
	stream := []byte{0}
	for _, f := range frames {
		stream = mcu.AppendFrame(stream, f)
	}
	firmware := exec.Command(path)
	firmware.Stdin = bytes.NewReader(stream)
	out, err := firmware.Output()
	if want := "0 0\n0.5 0\n2 1\n0.5 0\n"; err != nil || string(out) != want {
		t.Errorf("%q, %v, want %q", out, err, want)
	}
}
