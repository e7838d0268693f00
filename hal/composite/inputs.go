package composite

import (
	"fmt"

	"optibfm/hal"
)

// informs reports whether a device has buttons, such as a receiver of a remote control.
func (d *device) informs() bool { return d.stop != nil || d.armer != nil || d.labels != nil }

// StopPressed implements hal.StopInput: the configured input, or that of any device.
func (r *Robot) StopPressed() bool {
	for _, d := range r.devices {
		if d.stop != nil && d.stop.StopPressed() {
			return true
		}
	}
	return r.pressed
}

// ArmRequested implements hal.ArmInput by the devices.
func (r *Robot) ArmRequested() (requested bool) {
	for _, d := range r.devices {
		if d.armer != nil && d.armer.ArmRequested() { // each reports once
			requested = true
		}
	}
	return requested
}

// Presses implements hal.LabelInput by the devices.
func (r *Robot) Presses(dst []hal.Press) (n int) {
	for _, d := range r.devices {
		if d.labels != nil {
			n += d.labels.Presses(dst[n:])
		}
	}
	return n
}

// Warning implements hal.Warner: the warning of the first device that has one.
func (r *Robot) Warning() error {
	for _, d := range r.devices {
		if d.warner == nil {
			continue
		}
		if err := d.warner.Warning(); err != nil {
			return fmt.Errorf("composite: %s: %w", d.Name, err)
		}
	}
	return nil
}
