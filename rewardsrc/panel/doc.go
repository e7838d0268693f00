// Package panel is the common part of devices with a few buttons:
// rewardsrc/evdev (gamepads, pedals, clickers, remotes) and rewardsrc/gpio
// (buttons on the pins of the robot's computer).
//
// A driver opens and reads its hardware ([Device], [Conn]) and reports its
// events to the panel: [Panel.Down], [Panel.Up], [Panel.Deflect],
// [Panel.Missed]. The panel is the [rewardsrc.Source]:
//
//   - one goroutine waits for the device; the robot's loop and the host's
//     recorder never wait;
//   - a press of good or bad answers the open request, or is about the moment
//     before it ([rewardsrc.Attribution]); better, worse and goal are always
//     about the moment before the press, also if they are held;
//   - presses of one button within refractory_ms count as one;
//   - a deflected axis, or with hold_after_ms a held good or bad button, gives
//     one label each interval_ms ([rewardsrc.Held]) of the given weight;
//   - undo removes the newest press, or the newest stream;
//   - the panel waits for an absent device. Meanwhile [Panel.Reachable] is
//     false: the robot asks nothing, and the operator's screen shows the
//     reason;
//   - presses that the hardware or a full queue lost are counted and reported,
//     never guessed.
package panel
