// Package ipc connects the control process and the host process of a run.
//
// Both map one shared-memory segment (internal/ipc/shm), which the host process inherits as a
// descriptor:
//
//	ticks     ring     control -> host  every tick; dropped if full: the recorder sees the gap
//	states    mailbox  control -> host  the newest state and belief
//	requests  ring     control -> host  requests for labels, and their ends
//	plans     mailbox  host -> control  the newest z
//	labels    ring     host -> control  durable labels; a full ring refuses the press
//	switches  ring     control -> host  switches of the task; a full ring refuses the switch
//	stops     mailbox  control -> host  the newest cause of a stop
//	presses   ring     control -> host  presses of the robot's buttons; dropped if the host is slow
//	warnings  ring     control -> host  warnings; sent later if the host is slow
//	words              both             heartbeat, stop requests, states and activities
//
// [ControlLink] is the control process's end. It implements rewardsrc.Source and controller.Plans,
// so the agent does not know the segment. Its methods neither allocate nor block. [HostLink] is the
// host process's end. A [Wake] (a futex in the segment) wakes the host's goroutines. The control
// process checks every index and value that it reads: a damaged segment is a fault that halts the
// robot.
//
// The package also has what both processes must agree on: the host's configuration ([HostConfig]),
// the signals that end a run ([StopSignals]), the cause of a stop ([StopReport]), the activities of
// the host process ([HostSteps]) and the answers of the control socket ([Status]). Over a separate
// socket the host asks for another task ([TaskChanger]).
package ipc
