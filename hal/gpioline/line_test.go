package gpioline

import (
	"strings"
	"testing"

	"periph.io/x/conn/v3/gpio"
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
	for _, name := range []string{"gpiochip0:", ":3", "gpiochip0:-1", "gpiochip0:x"} {
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
