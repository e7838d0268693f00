package evdevtest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"optibfm/rewardsrc/evdev"
)

// Uinput is a device in the kernel: sysfs, ioctls, the clock and unplugging are the real ones. Its
// methods panic on errors of the kernel.
type Uinput struct{ file *os.File }

// Requests of the kernel's include/uapi/linux/uinput.h.
const (
	uinputCreate = 0x5501
	uinputSetEv  = 0x40045564
	uinputSetKey = 0x40045565
	uinputSetAbs = 0x40045567
)

// uinputDevice is struct uinput_user_dev.
type uinputDevice struct {
	Name                          [80]byte
	Bus, Vendor, Product, Version uint16
	Effects                       uint32
	Max, Min, Fuzz, Flat          [64]int32
}

// PlugKernel connects a device with the keys of info and the given axes. It needs access to
// /dev/uinput.
func PlugKernel(info evdev.Info, ranges map[uint16]evdev.Range) *Uinput {
	file, err := os.OpenFile("/dev/uinput", os.O_WRONLY, 0)
	must(err)
	d := &Uinput{file}
	d.set(uinputSetEv, EvKey)
	for _, key := range info.Keys.Codes() {
		d.set(uinputSetKey, int(key))
	}
	user := uinputDevice{Bus: info.Bus, Vendor: info.Vendor, Product: info.Product}
	copy(user.Name[:], info.Name)
	for axis, r := range ranges {
		d.set(uinputSetEv, EvAbs)
		d.set(uinputSetAbs, int(axis))
		user.Min[axis], user.Max[axis] = r.Min, r.Max
	}
	var raw bytes.Buffer
	must(binary.Write(&raw, binary.NativeEndian, user))
	d.write(raw.Bytes())
	d.set(uinputCreate, 0)
	return d
}

func (d *Uinput) set(request uint, value int) {
	must(unix.IoctlSetInt(int(d.file.Fd()), request, value))
}

func (d *Uinput) write(raw []byte) {
	_, err := d.file.Write(raw)
	must(err)
}

// Send writes events in one system call.
func (d *Uinput) Send(events ...Event) {
	var raw []byte
	for _, e := range events {
		raw = append(raw, e.Bytes()...)
	}
	d.write(raw)
}

// Press presses and releases a key.
func (d *Uinput) Press(code uint16) {
	for _, value := range []int32{1, 0} {
		d.Send(Event{Kind: EvKey, Code: code, Value: value}, Event{})
	}
}

// Move moves an axis.
func (d *Uinput) Move(axis uint16, value int32) {
	d.Send(Event{Kind: EvAbs, Code: axis, Value: value}, Event{})
}

// Unplug disconnects the device. A second call does nothing.
func (d *Uinput) Unplug() {
	if err := d.file.Close(); !errors.Is(err, os.ErrClosed) {
		must(err)
	}
}
