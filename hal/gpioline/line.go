// Package gpioline drives single GPIO lines of Linux, for what a device needs
// beside its bus: an output-enable, a reset, a relay.
package gpioline

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/warthog618/go-gpiocdev"
	"periph.io/x/conn/v3/gpio"
)

// Output is a line that is driven. Goroutines may share it. When it is closed,
// or its process dies, the kernel lets go of the line, and what it does then is
// the board's: fit a resistor that pulls it to where it is safe.
type Output struct {
	line *gpiocdev.Line
	name string
}

// Open requests a line as an output that has a level from the first moment on.
// The line is meant by the name that gpioinfo shows, such as GPIO17 or PQ.05,
// or by its chip and number, such as gpiochip0:17.
func Open(name string, level gpio.Level) (*Output, error) {
	chip, offset, err := find(name)
	if err != nil {
		return nil, err
	}
	line, err := gpiocdev.RequestLine(chip, offset, gpiocdev.AsOutput(value(level)), gpiocdev.WithConsumer("optibfm"))
	if err != nil {
		return nil, fmt.Errorf("gpioline: %s: the line cannot be had (%w): see gpioinfo for who uses it, and add this user to the group of /dev/%s", name, err, chip)
	}
	return &Output{line: line, name: name}, nil
}

// find turns a name into a chip and a number.
func find(name string) (chip string, offset int, err error) {
	if chip, number, ok := strings.Cut(name, ":"); ok {
		if offset, err = strconv.Atoi(number); err != nil || offset < 0 || chip == "" {
			return "", 0, fmt.Errorf("gpioline: %s: this is no line: write its name, or chip and number such as gpiochip0:17", name)
		}
		return chip, offset, nil
	}
	chip, offset, err = gpiocdev.FindLine(name)
	if errors.Is(err, gpiocdev.ErrNotFound) {
		err = errors.New("no chip that this user may open has a line of this name")
	}
	if err != nil {
		return "", 0, fmt.Errorf("gpioline: %s: %w: see gpioinfo for the names", name, err)
	}
	return chip, offset, nil
}

func value(level gpio.Level) int {
	if level {
		return 1
	}
	return 0
}

// Out drives the line. It does not wait.
func (o *Output) Out(level gpio.Level) error {
	if err := o.line.SetValue(value(level)); err != nil {
		return fmt.Errorf("gpioline: %s: %w", o.name, err)
	}
	return nil
}

func (o *Output) String() string { return o.name }

// Close lets go of the line.
func (o *Output) Close() error { return o.line.Close() }
