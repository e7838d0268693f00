// Package panel is what devices with a few buttons have in common, so that
// they answer alike: rewardsrc/evdev (gamepads, pedals, clickers, remotes) and
// rewardsrc/gpio (buttons on the pins of the robot's computer).
//
// A driver says how its hardware is opened and read ([Device], [Conn]) and
// tells the panel what it saw: [Panel.Down], [Panel.Up], [Panel.Deflect],
// [Panel.Missed]. The panel is the [rewardsrc.Source]:
//
//   - one goroutine waits for the device; nothing that the robot's loop or the
//     host's recorder calls ever does;
//   - a press answers the open request, or is about the moment before it
//     ([rewardsrc.Attribution]); presses of one button within refractory_ms
//     count as one;
//   - an axis that is deflected, or with hold_after_ms a good or bad button
//     that is held, gives one label each interval_ms ([rewardsrc.Held]), of the
//     given weight, because such labels say nearly the same thing;
//   - undo takes back the newest press, or the whole of the newest stream;
//   - a device that goes away is waited for, and so is one that is not there
//     at the start. Meanwhile [Panel.Reachable] is false, so that the robot
//     asks nothing, and the operator's screen says so;
//   - presses that the hardware or a full queue lost are counted and told.
//     They are never guessed.
package panel
