// Package flightlog is the record of a run: a writer that loses no acknowledged label,
// a reader for complete, cut and damaged logs, and a replay that computes the belief
// again and reports the first difference.
//
// # The file
//
// A log is an MCAP file (https://mcap.dev/spec) with protobuf messages. The file holds
// their definitions, so Foxglove, PlotJuggler and the mcap command can read it. Topics:
//
//	/tick      controller.Tick, the record of one control period
//	/label     a label as it came from its source
//	/request   a request for a label, or its end
//	/plan      a task embedding that the planner published
//	/event     a message for the operator
//	/timing    percentiles of the loop
//	/snapshot  the whole belief between two ticks
//
// The configuration (config.yaml) and the controller's part of it (controller.json) are
// attachments. The metadata record "optibfm" holds the rest of Metadata.
//
// Times inside the messages are CLOCK_MONOTONIC nanoseconds, in lockstep simulated
// nanoseconds. The log time of a message is
//
//	wall_ns + (t − mono_ns)
//
// where the metadata holds wall_ns and mono_ns, read together at the start. So log
// times show the wall clock of the start and never jump.
//
// # What a crash costs
//
// The MCAP library writes a chunk when it is large enough; a process that dies loses
// the open chunk. Writer closes a chunk every Options.FlushEvery (250 ms) and with
// every label, with one write at a known offset. After kill -9 the log lacks only the
// open chunk: at most FlushEvery plus one period of ticks, and never a label for which
// WriteLabel returned nil. The reader accepts a chunk only if it is whole and its
// checksum agrees.
//
// A power failure also loses the page cache. So WriteLabel calls fsync before it
// returns, and Create calls fsync for the file and its directory. Ticks are synced every
// Options.SyncEvery (2 s).
//
// If a write fails (disk full), the Writer cuts the file back to its last valid length.
// Ticks wait in memory up to Options.Backlog; beyond that the Writer drops and counts
// them. A label whose write failed is not in the log; WriteLabel returns an error.
//
// Before and after each write, and after the fsync of a label, the Writer compares the
// device, inode and size of its file with those at its path, and reads the bytes in front
// of the write. If somebody removed, replaced or truncated the log, every later call fails
// with ErrLost.
//
// # Pictures
//
// The pictures of NAME.mcap are in NAME.view-001.mcap and so on: foxglove.CompressedImage
// on /view, with log times of the same clock, a new file after an hour or 64 MiB. They are
// not in the log for four reasons:
//
//   - A run can delete pictures, which take most of the space, and keep the log.
//   - Another goroutine writes them. A disk that is too slow or too full for pictures still
//     takes ticks and labels.
//   - The checksums and the replay of a log do not depend on pictures.
//   - A person can delete pictures of people, or keep them from a copy.
//
// Foxglove opens the files together as one recording.
//
// # Memory
//
// The memory of a Writer does not grow with the run. At its end an MCAP file has an
// index record of about 100 bytes for each chunk. Programs such as Foxglove need these
// records, and the message indexes, to read a part of a log. The Writer collects them
// in an unnamed file beside the log until Close: about 40 MB for a day with a chunk
// every 200 ms.
//
// # Damage
//
// A log without its end is normal. A log that changed after it was written is damaged
// and never counts as verified. A Reader distinguishes the two when it opens a log:
//
//   - The checksums of a closed log cover all its bytes.
//   - A log that was never closed has checksums of its chunks and its preamble. The times and
//     the message indexes of a chunk must agree with its messages. The sequence numbers of
//     the messages show missing and repeated blocks.
//   - A cut is the beginning of a record at the end of the file, possibly followed by
//     zeros. Everything else that is unreadable is damage.
//
// The Reader reads up to the first byte that is wrong, and continues at the next whole
// chunk. A log that was never closed can lose bytes without a report in two places: in its
// last record, if that is unfinished, and in a missing block whose messages were the last
// of their topics.
//
// # Replay
//
// Verify starts from the first snapshot and runs controller.Learner, the code that ran
// on the robot, on the logged φ and labels. It takes φ and z from the log, because a
// network may round differently on another computer. The belief may not: hashes, norms
// and label weights must agree bit for bit, and results of a logarithm to 1e-12. At
// missing ticks, and at labels about them, the comparison stops and resumes at the next
// snapshot.
//
// WhatIf runs the same learner and label gate over the same states with other
// parameters. It reports what they would have asked and learnt there, not where the
// robot would have gone.
package flightlog
