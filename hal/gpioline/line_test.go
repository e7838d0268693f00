package gpioline

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"periph.io/x/conn/v3/gpio"

	"optibfm/hal/cp2112test"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func TestFind_ParsesChipAndNumber(t *testing.T) {
	for name, want := range map[string]struct {
		chip   string
		offset int
	}{"gpiochip0:17": {"gpiochip0", 17}, "gpiochip4:0": {"gpiochip4", 0}} {
		if chip, offset, err := find(name); err != nil || chip != want.chip || offset != want.offset {
			t.Errorf("%s: %s, %d, %v", name, chip, offset, err)
		}
	}
	for _, name := range []string{"gpiochip0:", ":3", "gpiochip0:-1", "gpiochip0:x", "gpiochip0:010"} {
		if _, _, err := find(name); err == nil || !strings.Contains(err.Error(), "no line") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOpen_ReportsMissingLineWithFix(t *testing.T) {
	for _, name := range []string{"NO_SUCH_LINE", "gpiochip99:1"} {
		_, err := Open(name, gpio.High)
		if err == nil || !strings.Contains(err.Error(), "gpioinfo") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOutput_DrivesKernelLine(t *testing.T) {
	if os.Getenv("OPTIBFM_VM") == "" {
		t.Skip("not in the machine of scripts/vm")
	}
	adapter, err := cp2112test.New(nil)
	fatal.If(t, err)
	defer adapter.Close()
	name := adapter.Chip + ":2"
	o, err := Open(name, gpio.High)
	fatal.If(t, err)
	for _, level := range []gpio.Level{gpio.Low, gpio.High} {
		errtest.Nil(t, o.Out(level))
		if lines, levels := adapter.Outputs(); lines != 1<<2 || levels>>2 != byte(value(level)) {
			t.Errorf("%v: outputs %b, levels %b", level, lines, levels)
		}
	}
	errtest.Is(t, errtest.Of(Open(name, gpio.High)), syscall.EBUSY, "opened twice")
	errtest.Nil(t, o.Close())
}
