// Package jitter measures how late a machine wakes the control loop. It implements `optibfm jitter`
// and the check rt.latency of package doctor.
//
// [Measure] lets two programs take turns, so that both see the same load:
//
//   - the bare loop of package rtloop, with an empty tick;
//   - with Options.Config, the whole program (`optibfm run`) as a child process. Its lateness comes
//     from its log.
//
// A [Result] holds the lateness of each, as a [ProgramRun] or a report of rtloop. Options.Hogs
// starts processes that each keep a processor busy.
//
// The package does not run a robot with actuators, because opening and halting it writes to its
// outputs.
package jitter
