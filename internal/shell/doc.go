// Package shell writes commands that a user can copy into a POSIX shell: it quotes words ([Quote]) and
// keeps how the program was started ([Invocation]), so that advice such as "run optibfm arm" names the same
// program, configuration and socket.
package shell
