package evdev

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Info describes a connected device, from sysfs.
type Info struct {
	Node    string // event7, under /dev/input
	Bus     uint16
	Vendor  uint16
	Product uint16
	Name    string
	Phys    string // physical path
	Uniq    string // "" for most
	Keys    Bits   // that it has
	Axes    Bits
	Props   Bits // INPUT_PROP codes
}

// INPUT_PROP codes of include/uapi/linux/input-event-codes.h.
const (
	propPointer       = 0 // a touchpad or mouse
	propDirect        = 1 // a touch screen
	propAccelerometer = 6 // a motion sensor
)

// steered reports whether a person deflects the axes of a device and lets them go, as of a gamepad
// or pedal. Gamepads have further nodes with the same axes: a motion sensor, which streams, and a
// touchpad, which keeps the last position.
func (i *Info) steered() bool {
	return !i.Props.Has(propPointer) && !i.Props.Has(propDirect) && !i.Props.Has(propAccelerometer)
}

// String names the device for people.
func (i Info) String() string {
	return fmt.Sprintf("%s %04x:%04x %q (%s)", busName(i.Bus), i.Vendor, i.Product, i.Name, i.Node)
}

// Match returns the configuration that finds this device again, without Phys:
// the device may move to another port.
func (i Info) Match() Match {
	return Match{
		Bus: busName(i.Bus), Vendor: fmt.Sprintf("%04x", i.Vendor), Product: fmt.Sprintf("%04x", i.Product),
		Name: i.Name, Uniq: i.Uniq,
	}
}

// Fits reports whether m matches a device.
func (m Match) Fits(i Info) bool {
	bus, busOK := busNumber(m.Bus)
	vendor, vendorOK := hexNumber(m.Vendor)
	product, productOK := hexNumber(m.Product)
	return (!busOK || bus == i.Bus) && (!vendorOK || vendor == i.Vendor) && (!productOK || product == i.Product) &&
		(m.Name == "" || m.Name == i.Name) && (m.Uniq == "" || m.Uniq == i.Uniq) && (m.Phys == "" || m.Phys == i.Phys)
}

// String describes the device.
func (m Match) String() string {
	var parts []string
	if m.Bus != "" {
		parts = append(parts, m.Bus)
	}
	if m.Vendor != "" || m.Product != "" {
		parts = append(parts, m.Vendor+":"+m.Product)
	}
	for _, name := range []string{m.Name, m.Uniq, m.Phys} {
		if name != "" {
			parts = append(parts, strconv.Quote(name))
		}
	}
	return strings.Join(parts, " ")
}

// Bits is a set of codes.
type Bits [keyCount / 64]uint64

// Has reports whether a code is in the set.
func (b *Bits) Has(code uint16) bool { return int(code) < keyCount && b[code/64]>>(code%64)&1 == 1 }

// Set adds a code to the set.
func (b *Bits) Set(code uint16) {
	if int(code) < keyCount {
		b[code/64] |= 1 << (code % 64)
	}
}

// Codes returns the codes in the set.
func (b *Bits) Codes() (codes []uint16) {
	for i, word := range b {
		for ; word != 0; word &= word - 1 {
			codes = append(codes, uint16(64*i+bits.TrailingZeros64(word)))
		}
	}
	return codes
}

// Kernel is the [System] of Linux. The zero value uses this machine's folders.
type Kernel struct {
	Sys string // "" means /sys/class/input
	Dev string // "" means /dev/input
}

func (k Kernel) sys() string {
	if k.Sys == "" {
		return "/sys/class/input"
	}
	return k.Sys
}

func (k Kernel) dev() string {
	if k.Dev == "" {
		return "/dev/input"
	}
	return k.Dev
}

// List returns the connected devices in the order of their numbers. It opens
// none.
func (k Kernel) List() ([]Info, error) {
	entries, err := os.ReadDir(k.sys())
	if errors.Is(err, os.ErrNotExist) { // no input devices at all
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("evdev: %w", err)
	}
	var all []Info
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "event") {
			continue
		}
		if info, ok := k.describe(e.Name()); ok {
			all = append(all, info)
		}
	}
	slices.SortFunc(all, func(a, b Info) int { return number(a.Node) - number(b.Node) })
	return all, nil
}

func number(node string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(node, "event"))
	return n
}

// describe reads the properties of a node; ok is false if it has gone away.
func (k Kernel) describe(node string) (info Info, ok bool) {
	dir := filepath.Join(k.sys(), node, "device")
	text := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return ""
		}
		return strings.TrimRight(string(b), "\n")
	}
	id := func(name string) uint16 {
		n, valid := hexNumber(text("id/" + name))
		ok = ok || valid
		return n
	}
	info = Info{
		Node: node, Bus: id("bustype"), Vendor: id("vendor"), Product: id("product"),
		Name: text("name"), Phys: text("phys"), Uniq: text("uniq"),
		Keys:  parseBits(text("capabilities/key"), strconv.IntSize),
		Axes:  parseBits(text("capabilities/abs"), strconv.IntSize),
		Props: parseBits(text("properties"), strconv.IntSize),
	}
	return info, ok
}

// parseBits parses a set as sysfs prints it: hexadecimal words of wordBits, the
// highest first. It skips invalid words.
func parseBits(text string, wordBits int) (b Bits) {
	words := strings.Fields(text)
	slices.Reverse(words)
	for i, word := range words {
		n, err := strconv.ParseUint(word, 16, wordBits)
		if err != nil || i*wordBits >= keyCount {
			continue
		}
		b[i*wordBits/64] |= n << (i * wordBits % 64)
	}
	return b
}
