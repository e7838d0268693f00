// Package rewardsrc defines where reward labels come from.
//
// # The contract
//
// A [Source] is a device that a person operates, or a program in its place. It
// has three methods: Ask shows that a label is wanted, Poll returns the labels
// that arrived, Halt releases the device. None of them waits for a person.
//
//	src.Ask(rewardsrc.Request{ID: 7, Tick: 1204, At: at, State: rewardsrc.Open})
//	n := src.Poll(labels)       // usually 0; perhaps 1, some ticks later
//	src.Ask(rewardsrc.Request{ID: 7, State: rewardsrc.Answered})
//
// Silence means "no label". It never means a reward of 0.
//
// # Which state a label is about
//
// A press is late by the reaction time of the operator. A [Label] therefore
// names its state in one of three ways:
//
//   - Request is set: the label answers that request and is about the
//     request's tick, at any delay;
//   - Tick is set: the source has the tick. An oracle has it, a person does
//     not;
//   - neither is set (Tick is [NoTick]): only At, the moment of the press, is
//     known. The controller credits the ticks shortly before it. Mode selects
//     the credit window: the hand on an axis follows the eye faster than a
//     press does.
//
// [Attribution] makes this choice for every source.
//
// # Optional interfaces
//
// A [Watcher] sees the simulator's reward in every tick. An [Acknowledger]
// learns the outcome of each label and shows it to the operator: acknowledged
// means that the label survives a crash. A [Reachable] reports whether its
// device is there.
//
// # Devices
//
//   - rewardsrc/scripted is a simulated operator with a reaction delay,
//     mistakes, noise and absences;
//   - rewardsrc/keyboard is a raw terminal;
//   - rewardsrc/console reads lines, such as from a pipe or a serial line;
//   - rewardsrc/evdev is a gamepad, pedal, clicker or remote;
//   - rewardsrc/gpio is buttons, a light and a buzzer on the computer's pins;
//   - rewardsrc/panel is the common part of evdev and gpio;
//   - rewardsrc/web is a browser, on a phone or a laptop.
//
// A reward device never arms the robot and is not the emergency stop. When it
// is lost, the robot stops asking but does not stop moving. docs/labels.md is
// the operator's manual.
package rewardsrc
