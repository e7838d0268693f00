// Package rtloop is the clock of a control loop. It wakes one thread once a
// period, counts missed periods, and calls the Halt hook whenever the loop ends.
// It does not depend on robots.
//
// # Running a loop
//
// [Prepare] creates the control thread and requests its real-time posture from
// the operating system. [Granted] lists the results. Under the posture "strict" a
// refused request is an error. [Loop.Run] then calls a function once a period,
// until its context is done or an error occurs, and returns a [Report].
//
// # The thread
//
// The loop has its own operating-system thread, with SCHED_FIFO, processor
// affinity and timer slack. The thread ends with the loop, so that other
// goroutines and child processes do not get its properties. It sleeps to absolute
// deadlines on CLOCK_MONOTONIC with clock_nanosleep. Garbage collection is off
// below a memory limit.
//
// Priorities of threads do not apply to goroutines. To run Go code a thread needs
// a slot of the Go scheduler (GOMAXPROCS). When other goroutines of the process
// keep all slots busy, the control thread waits for one for tens of milliseconds,
// at any priority. Keep computation in another process.
//
// # The other threads
//
// The Go scheduler takes a slot that one goroutine has used for 10 ms. When it finds
// the control thread inside a tick then, that thread passes the slot and itself to
// another thread of the process, and sleeps until this thread wakes it. At the
// ordinary priority a busy computer delays that by tens of milliseconds. Therefore
// all other threads of the process have SCHED_RR, 10 below the control thread, but at
// least 1. With a fifo_priority of 1 they keep the ordinary one.
//
// Threads that compute for long must not have it: they would keep other programs
// from running. If the other threads together use 75 % of a processor for 0.2 s,
// they all lose the priority until they have been calm for a second. A calm moment
// takes back three times its length of the 0.2 s, a busy one of the second. [Live]
// and [Report] count this. Child processes never inherit the priority
// (SCHED_RESET_ON_FORK).
//
// # Periods, ticks and misses
//
// Period i begins at start + i·period: the phase never changes. The loop skips a
// period whose deadline has passed when the previous tick ends, and one that is
// over when the thread wakes. Elapsed of the next [Beat] is the number of periods
// since the last one. Hence, always,
//
//	ticks run + ticks skipped = periods that began
//
// [Report.Identity] checks this against the clock. The loop counts skipped ticks
// without a punctual one in between. MaxMissed of them end the loop with
// [ErrOverrun], after one long stall and also with a body that always takes 1.1
// periods. If Loop.OnOverrun can make the body safe, the loop continues.
//
// A process that is stopped (SIGSTOP, a debugger) and continued finds many skipped
// periods at once, and usually ends with ErrOverrun. After such a gap the robot
// should not continue automatically. CLOCK_MONOTONIC stands still while the
// computer is suspended, so that the loop does not notice a suspend. Do not let
// the computer of a robot suspend.
//
// # Ways out
//
// Run calls Loop.Halt exactly once, on the control thread, before it returns:
// after a cancelled context, an error, an overrun, a panic or a Goexit. The hook
// gets the cause. Run returns a panic as a [*PanicError] with its stack. Against
// events that end the process at once (SIGKILL, a fatal error of the Go runtime,
// no memory) the device needs a deadman.
//
// A control thread that hangs inside a tick, or in Loop.Halt, cannot halt the
// robot, and Run does not return. The [Watchdog], on a second thread with a higher
// priority, then calls Loop.OnStuck with the thread's state from the kernel. It
// watches until Halt has returned. It is Go code: a Go runtime that hangs stops
// the watchdog too. WatchdogSec= of systemd and the device's deadman cover that
// case. The [Notifier] feeds the watchdog of systemd, but only while ticks run.
package rtloop
