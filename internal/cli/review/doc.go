// Package review prints what the log of a run contains.
//
// The subcommands `optibfm replay` and `optibfm log` call it, one function each:
//
//   - Replay computes the belief of a run again, compares it with the log, and
//     answers what-if questions. It prints text, JSON or a page for a browser.
//   - Info prints a summary of a log, Cat its messages as JSON.
//   - Recover copies the readable records of a log to a new log.
//   - Release marks logs that a later run may delete.
//
// Package flightlog reads, verifies and copies logs; this package opens a log,
// calls flightlog and prints the result. It writes to a log's folder only in
// Recover, Release and, to mark a verified log, in Replay.
//
// A log whose process was killed ends early. This is normal and no error. A log
// whose bytes were changed later is damaged: each function prints what it can
// read and returns an error that wraps flightlog.ErrDamaged. A damaged log is
// never marked as replayed.
package review
