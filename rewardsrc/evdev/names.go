package evdev

import (
	"fmt"
	"strconv"
	"strings"

	names "github.com/holoplot/go-evdev"

	"optibfm/internal/decimal"
)

// Types and codes of the kernel's include/uapi/linux/input-event-codes.h.
const (
	evSyn = names.EV_SYN
	evKey = names.EV_KEY
	evAbs = names.EV_ABS
	evRep = names.EV_REP

	synReport  = names.SYN_REPORT
	synDropped = names.SYN_DROPPED

	keyCount = names.KEY_CNT
	absCount = names.ABS_CNT
)

// KeyName returns the name of a key, such as KEY_VOLUMEUP or BTN_A, or its
// number.
func KeyName(code uint16) string { return nameOf(names.KEYNames, code) }

// AxisName returns the name of an axis, such as ABS_Y, or its number.
func AxisName(code uint16) string { return nameOf(names.ABSNames, code) }

func nameOf(all map[names.EvCode]string, code uint16) string {
	name, ok := all[names.EvCode(code)]
	if !ok {
		return strconv.Itoa(int(code))
	}
	return name[strings.LastIndexByte(name, '/')+1:] // the most familiar of several
}

// ParseKey returns the code of a key: its name or its number.
func ParseKey(name string) (uint16, error) {
	return parse(name, names.KEYFromString, keyCount, "a key, such as KEY_VOLUMEUP or BTN_A")
}

// ParseAxis returns the code of an axis: its name or its number.
func ParseAxis(name string) (uint16, error) {
	return parse(name, names.ABSFromString, absCount, "an axis, such as ABS_Y")
}

func parse(name string, all map[string]names.EvCode, count int, want string) (uint16, error) {
	if code, ok := all[name]; ok && int(code) < count {
		return uint16(code), nil
	}
	if err := decimal.Check(name); err != nil {
		return 0, err
	}
	if n, err := strconv.ParseUint(name, 0, 16); err == nil && int(n) < count {
		return uint16(n), nil
	}
	return 0, fmt.Errorf("unknown (%q); use the name of %s, or its number (below %d)", name, want, count)
}

// busNumber returns the number of a bus, such as usb.
func busNumber(name string) (uint16, bool) {
	code, ok := names.BUSFromString["BUS_"+strings.ToUpper(name)]
	return uint16(code), ok
}

// busName returns the name of a bus in lower case, "" if it has none.
func busName(bus uint16) string {
	return strings.ToLower(strings.TrimPrefix(names.BUSToString[names.EvCode(bus)], "BUS_"))
}

func hexNumber(digits string) (uint16, bool) {
	n, err := strconv.ParseUint(digits, 16, 16)
	return uint16(n), err == nil
}
