// Package taskstore keeps tasks that a robot learnt, one file a task.
//
// A [Task] is a z with its belief, so that a run can start from it. A task made from
// states of a log is a z without a belief. A [Folder] holds the files NAME.task, each a
// file of package sealed: one line of JSON has the fields of Task except name and
// belief, the body is a [beliefstore.Record] or empty. The name of a task is that of
// its file: copy the file to another robot with the same model, or rename it.
//
// [Folder.Save] and [Folder.Delete] lock the folder, and a file is replaced atomically.
// [Folder.List] returns the error of each file that it cannot read beside the tasks of
// the others.
package taskstore
