// Package gpioline drives single GPIO lines of Linux: an output-enable, a reset or a relay beside a
// bus.
package gpioline

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/warthog618/go-gpiocdev"
	"periph.io/x/conn/v3/gpio"

	"optibfm/internal/decimal"
)

// Output is an output line. Several goroutines may use it. When it is closed, or its process dies,
// the kernel releases the line, and the board determines its level: add a resistor that pulls it to
// the safe level.
type Output struct {
	line *gpiocdev.Line
	name string
}

// Open requests a line as an output with an initial level. name is the one that gpioinfo prints,
// such as GPIO17 or PQ.05, or chip and number, such as gpiochip0:17.
func Open(name string, level gpio.Level) (*Output, error) {
	chip, offset, err := find(name)
	if err != nil {
		return nil, err
	}
	line, err := gpiocdev.RequestLine(chip, offset, gpiocdev.AsOutput(value(level)), gpiocdev.WithConsumer("optibfm"))
	if err != nil {
		return nil, fmt.Errorf("gpioline: %s: request line: %w; find its user with gpioinfo, "+
			"and add this user to the group of /dev/%s", name, err, chip)
	}
	return &Output{line: line, name: name}, nil
}

// find returns the chip and number of a line.
func find(name string) (chip string, offset int, err error) {
	if chip, number, ok := strings.Cut(name, ":"); ok {
		if offset, err = strconv.Atoi(number); err != nil || decimal.Check(number) != nil || offset < 0 || chip == "" {
			return "", 0, fmt.Errorf("gpioline: %s: no line; write a name, or chip:number as in gpiochip0:17", name)
		}
		return chip, offset, nil
	}
	chip, offset, err = gpiocdev.FindLine(name)
	if errors.Is(err, gpiocdev.ErrNotFound) {
		err = errors.New("no accessible chip has a line with this name")
	}
	if err != nil {
		return "", 0, fmt.Errorf("gpioline: %s: %w; list the names with gpioinfo", name, err)
	}
	return chip, offset, nil
}

func value(level gpio.Level) int {
	if level {
		return 1
	}
	return 0
}

// Out sets the level of the line. It does not block.
func (o *Output) Out(level gpio.Level) error {
	if err := o.line.SetValue(value(level)); err != nil {
		return fmt.Errorf("gpioline: %s: %w", o.name, err)
	}
	return nil
}

func (o *Output) String() string { return o.name }

// Close releases the line.
func (o *Output) Close() error { return o.line.Close() }
