// Package rewardsrc says where reward labels come from.
//
// # The contract
//
// A [Source] is a device with a person at it, or something that stands in for
// one. Three methods suffice: Ask shows that a label is wanted, Poll hands out
// the labels that came, Halt releases the device. None of them waits for a
// person, because the robot does not.
//
//	src.Ask(rewardsrc.Request{ID: 7, Tick: 1204, At: at, State: rewardsrc.Open})
//	n := src.Poll(labels)       // usually 0; perhaps 1, some ticks later
//	src.Ask(rewardsrc.Request{ID: 7, State: rewardsrc.Answered})
//
// Silence means "no label". It never means a reward of 0.
//
// # What a label is about
//
// Whoever presses a key is late by their reaction time, so a [Label] must say
// what it is about, in one of three ways:
//
//   - Request is set: it answers that request, and is about the request's
//     tick, whenever it comes;
//   - Tick is set: the source knows the tick. An oracle does, a person does
//     not;
//   - neither is set (Tick is [NoTick]): At, the moment of the press, is all
//     there is. The controller credits the ticks shortly before it; Mode
//     chooses how long before, since a hand that is held on an axis follows
//     the eye otherwise than one that presses.
//
// # Optional interfaces
//
// A [Watcher] is told the simulator's reward in every tick. An [Acknowledger]
// is told what became of each label, so that it can show it to whoever
// pressed: acknowledged means that the label survives a crash. A [Reachable]
// says whether its device is there.
//
// # Devices
//
//   - rewardsrc/scripted is a simulated operator with a reaction delay,
//     mistakes, noise and absences;
//   - rewardsrc/keyboard is a person at a raw terminal;
//   - rewardsrc/console reads lines, such as from a pipe or a serial line;
//   - rewardsrc/evdev is a gamepad, pedal, clicker or remote;
//   - rewardsrc/gpio is buttons, a light and a buzzer on the computer's pins;
//     what these two have in common is rewardsrc/panel;
//   - rewardsrc/web is a person with a browser, on a phone or a laptop.
//
// A reward device never arms the robot and is not the emergency stop: losing
// it stops the asking, not the robot. docs/labels.md is the operator's manual.
package rewardsrc
