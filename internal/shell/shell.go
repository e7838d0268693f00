// Package shell writes commands that a person can copy into a POSIX shell.
package shell

import "strings"

// Quote returns a word as a shell reads it back: as it is where no character in it has
// a meaning to the shell, otherwise in single quotes.
func Quote(word string) string {
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// plain are the characters without a meaning anywhere in a word.
const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-"
