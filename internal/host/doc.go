// Package host is the host process of a run: everything but the robot.
//
// The control process (internal/control) holds the robot and starts the host process as `optibfm
// host`, if possible as another user and always without real-time rights. The host process has no
// descriptor of a device. A crash, a garbage collection or a stalled disk here cannot delay a
// control tick.
//
// [Serve] is the whole process. It opens a [Process], which has these goroutines:
//
//   - the recorder takes ticks, requests and labels: it feeds the log, the display and the
//     statistics (internal/recorder), and the operator's device;
//   - the [Planner] plans for the newest state and publishes z;
//   - the belief saver keeps the belief for the next run (internal/taskstore);
//   - the picture recorder, with log.frames_hz, writes pictures beside the log;
//   - the heartbeat reports to the control process that planner and recorder make progress.
//
// The control process wakes recorder and planner (internal/ipc). A label is durable before the
// operator sees it acknowledged, and the control process learns it from a ring that never drops a
// label.
//
// The run ends when the control process reports that it halted the robot. If the control process
// dies, the host process reports it, closes the log and ends; the robot's own deadman stops the
// robot.
package host
