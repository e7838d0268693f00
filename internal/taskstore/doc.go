// Package taskstore keeps learnt tasks, each in one file.
//
// A [Task] is a z with its belief, so that a run can start from it. A task made from states of a
// log is a z without a belief. The file NAME.task has the task NAME: you may rename it, or copy it
// to another robot with the same model. [Export] writes a file with the name of the task and the
// channels of its model.
//
// The labels of a belief are those of its sessions ([Session]), so that a merge of two beliefs
// counts none twice. A session is a part of a run. Its beliefs differ only in the tick up to which
// they have its labels.
//
// A [Store] has the folder of the saved tasks, and run.state_dir with two tasks that the run
// writes: [Last], its newest belief, and [Previous], the belief before a switch of the task.
// [Keeper] writes both and locks run.state_dir.
//
// A file consists of
//
//	one line  JSON: the format, the task, the settings of its belief
//	a body    R, b, D, cursor and weight of posterior.Belief.State, float64, little-endian;
//	          empty without a belief
//	8 bytes   xxHash64 (seed 0) of everything before, little-endian
//
// Each write goes to a new file, syncs it, renames it and syncs the folder. If the process or the
// power fails at any moment, the old or the new file remains, complete.
package taskstore
