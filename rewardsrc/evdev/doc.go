// Package evdev is a label source for Linux input devices: a gamepad, a pedal, a
// presenter's clicker, the remote of a phone camera (a volume button), or a
// second keyboard.
//
//	panel, err := evdev.Open(cfg, evdev.Options{})
//
// Package panel implements the [rewardsrc.Source]: the meaning of presses and
// held keys, and waiting for an absent device. `optibfm label bind` writes the
// configuration: it asks for each press.
//
// # Which device
//
// [Match] identifies a device by bus, vendor, product, name, unique number and
// physical path, never by the number of its /dev/input/event node, which
// changes with every replug. One gadget often has several nodes; the first
// matching node with all bound keys is used. The list of devices comes from
// /sys/class/input: only the wanted node is opened, and no other device wakes.
//
// # What is a press
//
// A press is a key's value 1 in a packet that the kernel completed
// (SYN_REPORT). Autorepeat (2) and keys that were down when the device was
// opened do not count. The time is the kernel's, on CLOCK_MONOTONIC
// (EVIOCSCLOCKID). When the kernel's buffer overflowed (SYN_DROPPED), the packet
// is void, the state of keys and axis is read again, and presses in between are
// reported as lost, not guessed. See Documentation/input/event-codes.rst of
// Linux.
//
// # An axis
//
// A stick, slider or analogue pedal gives a stream of labels while it is
// deflected beyond its dead zone. Its two ends are good and bad, its rest is the
// middle between their rewards. A pedal (rest: low or high) has one end only: good,
// or bad if it is inverted. An axis that is deflected when the device is opened
// counts only after it has returned.
//
// A stream, also of a held key, pauses after 5 s without an event of the device:
// a wireless device that is lost looks like one that is held. It continues with
// the next event.
//
// # The kernel's interface
//
// This package makes the requests to the device with x/sys/unix, because
// holoplot/go-evdev cannot set the clock, distinguish errors or read many events
// at once. The names of keys and axes are that module's, generated from the
// kernel's headers.
package evdev
