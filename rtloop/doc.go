// Package rtloop is the clock of a control loop: it wakes one thread once a
// period, counts what it missed, and makes sure that the robot is halted
// whatever ends the loop. It knows nothing of robots.
//
// # Running a loop
//
// [Prepare] makes the control thread and asks the operating system for its
// posture; what it got is in [Granted], and under the posture "strict" less
// than everything is an error. [Loop.Run] then calls a function once a period,
// until its context is done or something goes wrong, and returns a [Report].
//
// # The thread
//
// The loop runs on an operating-system thread of its own, to which SCHED_FIFO,
// processor affinity and timer slack are given, and which ends with the loop,
// so none of it reaches other goroutines or child processes. It sleeps to
// absolute deadlines on CLOCK_MONOTONIC with clock_nanosleep. Garbage
// collection is off below a memory limit.
//
// Priorities of threads do not reach goroutines. To run Go code a thread needs
// one of the scheduler's slots (GOMAXPROCS), and when other goroutines of the
// process keep all of them busy, the control thread waits for one for tens of
// milliseconds, whatever its priority. Keep computation in another process,
// which cannot do this.
//
// # Periods, ticks and misses
//
// Period i begins at start + i·period, for ever: the phase is kept. A period
// whose deadline has passed when the previous tick ends, and one that is over
// when the thread wakes, is skipped; the next [Beat] says in Elapsed how many
// periods went by. Hence, always,
//
//	ticks run + ticks skipped = periods that began
//
// which [Report.Identity] checks against the clock. Skipped ticks with no
// punctual one in between are counted together, and MaxMissed of them end the
// loop with [ErrOverrun]: a body that always takes 1.1 periods is stopped just
// as one long stall is. Where the body can be made safe without ending the loop,
// Loop.OnOverrun does that, and the loop goes on.
//
// A process that is stopped (SIGSTOP, a debugger) and continued finds many
// periods skipped at once, and so usually ends in ErrOverrun: after such a gap
// the robot should not go on by itself. While the computer is suspended
// CLOCK_MONOTONIC stands still, so that a suspend is seen only as far as it
// takes time around the sleep proper; do not let a robot suspend.
//
// # Ways out
//
// Loop.Halt is called exactly once, on the control thread, before Run returns:
// after a cancelled context, an error, an overrun, a panic or a Goexit, and is
// given the cause. A panic is returned as a [*PanicError], with its stack. What
// no process can answer itself (SIGKILL, a fatal error of the Go runtime, memory
// exhausted) is left to the deadman of the device.
//
// A control thread that hangs inside a tick, or in Loop.Halt, cannot halt
// anything; Run does not return. The [Watchdog], on a second thread with a higher
// priority, then calls Loop.OnStuck with what the kernel reports of the thread.
// It watches until Halt has returned. It is Go code: a runtime that is itself
// hung takes the watchdog with it, which is what WatchdogSec= of systemd and the
// device's deadman are for. The [Notifier] feeds the former, and only while ticks
// go on.
package rtloop
