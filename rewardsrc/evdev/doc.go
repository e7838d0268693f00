// Package evdev is any device that Linux knows as an input device, held by the
// operator: a gamepad, a pedal, a presenter's clicker, the remote of a phone
// camera (a volume button), a keyboard that is not the terminal's.
//
//	panel, err := evdev.Open(cfg, evdev.Options{})
//
// It is a [rewardsrc.Source] by way of package panel, which says what a press
// is about, what holding means, and what happens when the device goes away.
// `optibfm label bind` writes the configuration by asking for each press.
//
// # Which device
//
// A device is known by its bus, vendor, product, name, unique number and place
// of plugging ([Match]), never by the number of its /dev/input/event node,
// which changes with every replug. One thing in the hand often has several
// nodes; of those that match, the first that has all bound keys is taken.
// What is connected is read from /sys/class/input, so that no node is opened
// (and no sleeping device woken) but the one that is wanted.
//
// # What is a press
//
// A key's value 1 in a packet that the kernel has completed (SYN_REPORT);
// autorepeat (2) is none, nor is a key that was down when the device was
// opened. Its time is the kernel's, on CLOCK_MONOTONIC (EVIOCSCLOCKID). When
// the kernel's buffer overflowed (SYN_DROPPED) the packet is void, the state
// of keys and axis is read anew, and presses in between count as lost: they
// are told, not guessed. See Documentation/input/event-codes.rst of Linux.
//
// # An axis
//
// A stick, slider or analogue pedal gives a stream of labels while it is
// deflected beyond its dead zone, by as much as it is. One that is not at rest
// when the device is opened counts only after it was.
//
// # The kernel's interface
//
// Requests to the device are made here with x/sys/unix: setting the clock,
// telling errors apart and reading many events at once is more than
// holoplot/go-evdev offers. The names of keys and axes are that module's,
// which are generated from the kernel's headers.
package evdev
