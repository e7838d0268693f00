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
// something else, takes the failsafe that it has, as after its deadman, and is an error.
// One that does not answer, or not understandably, may hear all the same: it is told
// twice, blindly, and is an error too. The error says where the line took nothing.
//
// A board that says nothing takes start_timeout_ms and twice timeout_ms.
func HaltBoard(c Config, failsafe []float64) error {
	d, err := newDevice(c)
	if err != nil {
		return err
	}
	values, unusable := d.appendOutputs(nil, failsafe)
	if unusable != nil {
		values = nil
	}
	err = d.meet()
	if err == nil {
		err = errors.Join(unusable, d.fits(failsafe))
	}
	switch {
	case err == nil:
		err = d.haltWith(values)
	case hal.KindOf(err) != nil: // it was not understood
		err = d.haltAlthough(err, values, "it was told blindly")
	default:
		err = d.haltAlthough(err, nil, "it was told to take the failsafe that it has")
	}
	return errors.Join(err, d.Close())
}

// fits compares the failsafe with the outputs that a board has told: without
// Config.DeclaredOutputs nobody has.
func (d *Device) fits(failsafe []float64) error {
	if n := len(d.outputs); n != len(failsafe) {
		return fmt.Errorf("mcu: %s: it has %d outputs, not %d: make the configuration the same", d.config.Port.Path, n, len(failsafe))
	}
	return nil
}

// haltAlthough halts a board of which something is wrong. told is what to say where the
// line took it.
func (d *Device) haltAlthough(wrong error, values []byte, told string) error {
	before := d.sent
	err := d.haltWith(values)
	if d.sent == before {
		told = "it could not be told"
	}
	return fmt.Errorf("halt: %w (%s)", errors.Join(wrong, err), told)
}
