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
