// Package usage makes the mistakes of a command line clear.
//
// [Explain] replaces cobra's messages for all commands of a program: each names the command, shows
// its usage and proposes the nearest flag or subcommand. [RefuseLeadingZeros] checks numeric flags.
package usage
