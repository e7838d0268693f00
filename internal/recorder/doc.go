// Package recorder is the one place that takes the ticks, labels and events of a run.
//
// A [Recorder] takes each tick once and hands it to the log, the [Statistics], the [Display] and
// the belief saver. A [LabelIntake] takes each label of the operator's device: it checks that the
// label may count, numbers it, writes it to the disk, passes it to the agent and acknowledges it.
// The host process (internal/host) and lockstep (internal/lockstep) use both, so a run in real time
// and a simulated one are recorded alike.
//
// Nothing here runs on the control thread.
package recorder
