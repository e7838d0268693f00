// Package flightlog is the record of a run: a writer that loses no label, a
// reader that opens what a crash left behind, and a replay that computes the
// run again and says where it differs.
//
// # The file
//
// A log is an MCAP file (https://mcap.dev/spec) with protobuf messages; their
// definitions are in the file, so programs for such files (Foxglove, PlotJuggler,
// the mcap command) need nothing of this one. Topics:
//
//	/tick      controller.Tick: everything about one control period
//	/label     a press, as it came from its source
//	/request   a label was asked for, or the request ended
//	/plan      a task embedding that the planner published
//	/event     something that a person should know
//	/timing    percentiles of the loop
//	/snapshot  the whole belief between two ticks
//
// The configuration (config.yaml) and the controller's part of it
// (controller.json) are attachments. The metadata record "optibfm" holds the
// rest of Metadata.
//
// Every time inside the messages is in CLOCK_MONOTONIC nanoseconds (in
// lockstep: simulated nanoseconds). The log time of a message is
//
//	wall_ns + (t − mono_ns)
//
// with the pair that was read together at the start and is in the metadata: it
// shows the wall clock, but never jumps when that is set.
//
// # What a crash costs
//
// The library's writer fills a chunk in memory and writes it when it is large
// enough; a process that dies loses all of it. Writer therefore closes a chunk
// every Options.FlushEvery (250 ms) and with every label, each with one write
// at a known offset. After kill -9 the log holds everything but the chunk that
// was open: at most FlushEvery plus one period of ticks, and never a label for
// which WriteLabel returned nil. A chunk counts only when it is whole and its
// checksum agrees; nothing is guessed from a torn one.
//
// A kill does not lose the page cache, a power failure does: for that,
// WriteLabel calls fsync before it returns, Create does so for the file and its
// directory, and ticks follow every Options.SyncEvery (2 s).
//
// A write that fails (disk full) is cut off again, so the log stays valid. Ticks
// wait in memory up to Options.Backlog and are then counted and dropped; a label
// is refused, and is not in the log.
//
// # Damage
//
// A log without its end is normal. A log that changed after it was written is
// damaged, and never counts as verified. A Reader tells the two apart when it
// opens a log:
//
//   - The checksums of a closed log cover every byte of it.
//   - A log that was never closed has checksums of its chunks and its preamble;
//     each message index must agree with its chunk, and the sequence numbers of
//     the messages show missing and repeated blocks.
//   - A cut is the beginning of a record at the end of the file, then perhaps
//     zeros. Everything else that cannot be read is damage.
//
// After a damaged place the reader continues at the next whole chunk. Only the
// last record of a log that was never closed can lose bytes without being
// reported as damaged: nothing covers a record that was not finished.
//
// # Replay
//
// Verify starts from the first snapshot and runs controller.Learner, the code
// that ran on the robot, on the logged φ and labels. φ and z are taken from the
// log as they are: a network may round differently elsewhere, the belief may
// not. Hashes, norms and label weights must agree bit for bit, what passes
// through a logarithm to 1e-12. Where ticks are missing, or a label is about
// ticks that are, the comparison stops and resumes at the next snapshot.
//
// WhatIf runs the same learner and label gate over the same states with other
// parameters. It says what would have been asked and learnt there, not where
// the robot would have gone.
package flightlog
