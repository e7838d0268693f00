package bno055

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Profile is the calibration of a chip: its registers 0x55 to 0x6A, the offsets
// of accelerometer, magnetometer and gyroscope and the radii of the first two;
// sections 3.6.4 and 3.11.4.
type Profile [22]byte

const profileMark = "bno055-calibration-1 "

// String returns the profile as the line of a calibration file.
func (p Profile) String() string { return profileMark + hex.EncodeToString(p[:]) }

// ParseProfile parses the format of String.
func ParseProfile(text string) (Profile, error) {
	var p Profile
	digits, ok := strings.CutPrefix(strings.TrimSpace(text), profileMark)
	if !ok {
		return p, fmt.Errorf("not a calibration; it must begin with %q", profileMark)
	}
	if len(digits) != 2*len(p) {
		return p, fmt.Errorf("not a calibration: %d hexadecimal digits, want %d", len(digits), 2*len(p))
	}
	if _, err := hex.Decode(p[:], []byte(digits)); err != nil {
		return p, fmt.Errorf("not a calibration: %w", err)
	}
	return p, nil
}

// Profile reads the calibration from the chip. It interrupts the fusion for 30 ms:
// do not call it in a control tick.
func (d *Device) Profile() (p Profile, err error) {
	if err := d.change(modeConfig, toConfigTime); err != nil {
		return p, err
	}
	readErr := d.conn.Read(regProfile, p[:])
	return p, errors.Join(readErr, d.change(modes[d.cfg.Mode], toModeTime))
}
