// Package control is the control process of `optibfm run`: the process that holds the robot and
// the belief, and that may run in real time.
//
// [Run] opens the robot, starts the host process and runs the control loop until a fault, a signal
// or the end of the run. Every exit halts the robot.
//
//	operator -- control socket --> Server -- commandMailbox --> control thread --> robot
//	host process <------------------ link (shared memory) ----> control thread
//
// The control thread runs one tick each period: commands, sense, labels, belief, policy, act. It
// allocates nothing, takes no lock and waits for nothing but the robot. Other goroutines exchange
// atomic words with it:
//
//   - [Server] answers arm, disarm, stop, reset, status and switches of the task at the control
//     socket. It checks each caller with the credentials that the kernel reports. [Send] and
//     [SendAndPrint] are its client. Every connection to a second socket is a stop. A lock keeps
//     other runs from the robot.
//   - The watchdog of rtloop and an unanswered stop command halt the robot through the driver's
//     second path ([hal.Backstop]) if the control thread hangs.
//   - One goroutine reports stops to the host. The control thread formats the text of a cause once,
//     when the robot is halted.
//
// A stop has one cause: the first fault that any thread noted since the last reset. Error, log,
// summary and status all report that cause. With safety.after_stop: hold the loop continues after a
// stop and an operator may reset and arm the robot; otherwise the run ends.
//
// [Run] starts the host process before it opens a device, and prevents the host from tracing this
// process. [Isolate] starts the host as another user without root, then drops the capabilities for
// that. The control thread makes no system call on a descriptor that the host has.
//
// The host process has none of the devices, capabilities or real-time rights of this process, and
// neither the host nor its children can arm the robot. This package does not plan, log or take
// labels: see package host.
package control
