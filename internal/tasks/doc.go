// Package tasks does the work of `optibfm task`: it saves the task that a robot learnt, lists, prints and
// deletes saved tasks, and makes one of a part of a log. Package taskstore has their format; package setup starts
// a run from one.
package tasks
