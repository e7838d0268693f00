package evdevtest

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"optibfm/rewardsrc"
	"optibfm/rewardsrc/evdev"
)

// Types and codes of events.
const (
	EvSyn, EvKey, EvAbs   = 0, 1, 3
	SynReport, SynDropped = 0, 3
)

// Device is a simulated device. Its methods panic on errors of the machine.
type Device struct {
	machine Machine
	state   state
	pipe    *os.File
	Now     func() int64 // the clock of events
}

// Event is one struct input_event.
type Event struct {
	At         int64 // ns; 0: now
	Kind, Code uint16
	Value      int32
}

// Plug connects a device with the given axes.
func (m Machine) Plug(info evdev.Info, ranges map[uint16]evdev.Range) *Device {
	d := &Device{machine: m, state: state{Info: info, Ranges: ranges}, Now: rewardsrc.Monotonic}
	path := filepath.Join(m.Dir, info.Node)
	must(unix.Mkfifo(path, 0o600))
	pipe, err := os.OpenFile(path, os.O_RDWR, 0) // does not wait for a reader
	must(err)
	d.pipe = pipe
	d.save()
	return d
}

// save writes the device's state atomically.
func (d *Device) save() {
	text, err := json.Marshal(d.state)
	must(err)
	path := filepath.Join(d.machine.Dir, d.state.Info.Node+".json")
	must(os.WriteFile(path+"~", text, 0o600))
	must(os.Rename(path+"~", path))
}

// Unplug disconnects the device.
func (d *Device) Unplug() {
	path := filepath.Join(d.machine.Dir, d.state.Info.Node)
	must(errors.Join(os.Remove(path+".json"), os.Remove(path), d.pipe.Close()))
}

// GrabElsewhere makes another program grab the device.
func (d *Device) GrabElsewhere() { d.state.Grabbed = true; d.save() }

// Forbid removes the permission to open the device.
func (d *Device) Forbid() { d.state.Private = true; d.save() }

// Set changes the state without an event, as if it had been lost.
func (d *Device) Set(down ...uint16) { d.state.Down = down; d.save() }

// SetAxis moves an axis without an event.
func (d *Device) SetAxis(axis uint16, value int32) {
	r := d.state.Ranges[axis]
	r.Value = value
	d.state.Ranges[axis] = r
	d.save()
}

// Press presses and releases a key.
func (d *Device) Press(code uint16) { d.Down(code); d.Up(code) }

// Down presses a key.
func (d *Device) Down(code uint16) {
	d.Set(append(d.state.Down, code)...)
	d.Send(Event{Kind: EvKey, Code: code, Value: 1}, Event{Kind: EvSyn})
}

// Up releases a key.
func (d *Device) Up(code uint16) {
	d.Set(slices.DeleteFunc(d.state.Down, func(c uint16) bool { return c == code })...)
	d.Send(Event{Kind: EvKey, Code: code}, Event{Kind: EvSyn})
}

// Move moves an axis.
func (d *Device) Move(axis uint16, value int32) {
	d.SetAxis(axis, value)
	d.Send(Event{Kind: EvAbs, Code: axis, Value: value}, Event{Kind: EvSyn})
}

// Send writes events unchanged.
func (d *Device) Send(events ...Event) {
	var b []byte
	for _, e := range events {
		e.At = cmp.Or(e.At, d.Now())
		b = append(b, e.Bytes()...)
	}
	_, err := d.pipe.Write(b)
	must(err)
}

// Bytes returns the event as the kernel writes it for this process.
func (e Event) Bytes() (b []byte) {
	sec, usec := uint64(e.At/1_000_000_000), uint64(e.At/1000%1_000_000)
	if strconv.IntSize == 64 {
		b = binary.NativeEndian.AppendUint64(b, sec)
		b = binary.NativeEndian.AppendUint64(b, usec)
	} else {
		b = binary.NativeEndian.AppendUint32(b, uint32(sec))
		b = binary.NativeEndian.AppendUint32(b, uint32(usec))
	}
	b = binary.NativeEndian.AppendUint16(b, e.Kind)
	b = binary.NativeEndian.AppendUint16(b, e.Code)
	return binary.NativeEndian.AppendUint32(b, uint32(e.Value))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
