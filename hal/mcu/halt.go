package mcu

import (
	"errors"
	"fmt"

	"optibfm/hal"
)

// HaltBoard halts a board whose program died, with the values of its failsafe outputs
// in the units of [Config.Outputs].
//
// A board that is as the configuration says is halted as [Device.Halt] does. One with
// other channels, or of another version of the protocol, to which the values would mean
// something else, is an error and told nothing. One that does not answer, or not
// understandably, may hear all the same: it is told twice, blindly, and is an error too.
//
// A board that says nothing takes start_timeout_ms and twice timeout_ms.
func HaltBoard(c Config, failsafe []float64) error {
	d, err := newDevice(c)
	if err != nil {
		return err
	}
	err = d.meet()
	switch {
	case err == nil:
		err = d.haltMet(failsafe)
	case hal.KindOf(err) != nil: // it was not understood
		err = fmt.Errorf("halt: %w (it was told blindly)", errors.Join(err, d.Halt(failsafe)))
	}
	return errors.Join(err, d.Close())
}

// haltMet halts a board that has told its outputs: without Config.DeclaredOutputs
// nobody has compared them.
func (d *Device) haltMet(failsafe []float64) error {
	if n := len(d.outputs); n != len(failsafe) {
		return fmt.Errorf("mcu: %s: halt: it has %d outputs, not %d: make the configuration the same", d.config.Port.Path, n, len(failsafe))
	}
	return d.Halt(failsafe)
}
