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

// String writes a profile as the line that a calibration file holds.
func (p Profile) String() string { return profileMark + hex.EncodeToString(p[:]) }

// ParseProfile reads what String writes.
func ParseProfile(text string) (Profile, error) {
	var p Profile
	digits, ok := strings.CutPrefix(strings.TrimSpace(text), profileMark)
	if !ok {
		return p, fmt.Errorf("this is no calibration: it begins with %q", profileMark)
	}
	if len(digits) != 2*len(p) {
		return p, fmt.Errorf("this is no whole calibration (%d hexadecimal digits): there are %d", len(digits), 2*len(p))
	}
	if _, err := hex.Decode(p[:], []byte(digits)); err != nil {
		return p, fmt.Errorf("this is no calibration: %w", err)
	}
	return p, nil
}

// Profile reads the calibration from the chip, whose fusion it interrupts for
// 30 ms: not for a control tick.
func (d *Device) Profile() (p Profile, err error) {
	if err := d.change(modeConfig, toConfigTime); err != nil {
		return p, err
	}
	readErr := d.conn.Read(regProfile, p[:])
	return p, errors.Join(readErr, d.change(modes[d.cfg.Mode], toModeTime))
}
