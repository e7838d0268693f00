// Package tasks does the work of `optibfm task` and `optibfm log label`: it saves the task that a
// robot learnt, lists, prints and deletes saved tasks, and makes one of a part of a log or of
// labels given to a log afterwards. Package taskstore has their format; package setup starts a run
// from one.
//
// [Propose] replays a log and writes a file with the moments whose labels would teach most. A
// person adds labels. [ForPage] returns such moments for the replay page, which saves labels in the
// same format. [Label] applies them to the learner that the replay leaves, as a run would at the
// end of the log.
package tasks
