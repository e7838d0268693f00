package plaintext

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks the lines of a text at 80 columns, at spaces, and
// indents what follows like the first line and two more. A command, which is
// indented by four, stays whole: it is to be copied.
func Wrap(text string) string {
	const width = 80
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		indent := strings.Repeat(" ", len(line)-len(strings.TrimLeft(line, " "))+2)
		for utf8.RuneCountInString(line) > width && len(indent) < 6 {
			cut := strings.LastIndexByte(string([]rune(line)[:width+1]), ' ')
			if cut <= len(indent) { // a word longer than a line, such as a path
				next := strings.IndexByte(line[len(indent):], ' ')
				if next < 0 {
					break
				}
				cut = len(indent) + next
			}
			b.WriteString(line[:cut] + "\n")
			line = indent + strings.TrimLeft(line[cut:], " ")
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
