// Package doctor checks whether a computer and a user can run a robot's configuration. It
// implements `optibfm doctor`.
//
// Each check examines one part of the machine and returns findings: ok, warn, fail or skip, with a
// fix. A warning marked Strict is a failure under loop.posture: strict. The checks cover what a run
// needs:
//
//   - config.file, system.user: the configuration and the user.
//   - rt.posture, rt.kernel, rt.latency: granted privileges, kernel settings that add latency, and
//     the measured lateness of wake-ups.
//   - clock.source, clock.wall: the clocks.
//   - device.*: the robot's buses, lines, ports and interfaces, or the program of a bridge.
//   - operator.*: the reward device and the console's port.
//   - model.*: the bundle, its channels, its duration and TensorFlow.
//   - disk.*: rights, durability and space in the log folder.
//
// The checks move and arm nothing, and they leave no files. They examine devices without opening
// them, with two exceptions: I²C buses, where they read one register of each device, and GPIO
// chips, which they ask about their lines. Opening a serial port would reset many boards. They do
// not connect to a robot behind a bridge.
//
// [Run] is the entry point. A check that panics or hangs becomes a finding; the others still run.
// The type machine holds everything that a check reads from the operating system, so that tests
// replace it.
package doctor
