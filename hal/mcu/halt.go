package mcu

import (
	"errors"
	"fmt"

	"optibfm/hal"
)

// HaltBoard halts a board whose program died. failsafe has the values of its outputs, in the units
// of [Config.Outputs].
//
//   - A board as configured is halted as by [Device.Halt].
//   - A board with other channels, or with another version of the protocol, would misread the
//     values. It is halted with its own failsafe, as after its deadman, and HaltBoard returns an
//     error.
//   - A board without valid answers is commanded twice without confirmation. The error reports
//     whether the line accepted the command.
//
// A silent board takes start_timeout_ms and twice timeout_ms.
func HaltBoard(c Config, failsafe []float64) error {
	d, err := newDevice(c)
	if err != nil {
		return err
	}
	values, unusable := d.appendOutputs(nil, failsafe)
	if unusable != nil {
		values = nil
	}
	err = d.identify()
	if err == nil {
		err = errors.Join(unusable, d.checkCount(failsafe))
	}
	switch {
	case err == nil:
		err = d.haltWith(values)
	case hal.KindOf(err) != nil: // no valid answers
		err = d.haltDespite(err, values, "halt sent without an answer")
	default:
		err = d.haltDespite(err, nil, "halt sent with the board's own failsafe")
	}
	return errors.Join(err, d.Close())
}

// checkCount compares the failsafe with the number of outputs of the board, which
// Config.DeclaredOutputs may not declare.
func (d *Device) checkCount(failsafe []float64) error {
	if n := len(d.outputs); n != len(failsafe) {
		const fix = "declare them under outputs"
		return fmt.Errorf("mcu: %s: it has %d outputs, not %d; %s", d.config.Port.Path, n, len(failsafe), fix)
	}
	return nil
}

// haltDespite halts a board despite a fault. remark is that for a line that accepted the command.
func (d *Device) haltDespite(fault error, values []byte, remark string) error {
	before := d.sent
	err := d.haltWith(values)
	if d.sent == before {
		remark = "halt could not be sent"
	}
	return fmt.Errorf("halt: %w (%s)", errors.Join(fault, err), remark)
}
