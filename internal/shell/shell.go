// Package shell writes commands that a person copies into a POSIX shell.
//
// Messages of the program advise commands, such as `./optibfm replay logs/a.mcap`.
// Quote and Operand protect single words. Invocation holds how this program was
// started, so that the advised commands start the same program.
package shell

import "strings"

// Quote returns a word in single quotes, or unchanged if none of its characters is
// special to a shell.
func Quote(word string) string {
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// plain lists the characters that are not special anywhere in a word.
const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-"

// Operand returns a path that a command does not read as a flag: ./ is added to a
// path that begins with a hyphen. The result is not quoted.
func Operand(path string) string {
	if strings.HasPrefix(path, "-") {
		return "./" + path
	}
	return path
}
