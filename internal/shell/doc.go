// Package shell writes commands that a user can copy into a POSIX shell.
//
// Messages of the program advise commands, such as `./optibfm replay logs/a.mcap`. [Quote] and
// [Operand] protect single words. [Invocation] keeps how the program was started, so that the
// commands name the same program, configuration and socket.
package shell
