package plaintext

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks lines longer than 80 columns at spaces and indents continuations by two more columns.
// Commands, which are indented by four or more, stay whole so that they can be copied.
func Wrap(text string) string {
	const width = 80
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		indent := strings.Repeat(" ", len(line)-len(strings.TrimLeft(line, " "))+2)
		for utf8.RuneCountInString(line) > width && len(indent) < 6 {
			cut := strings.LastIndexByte(string([]rune(line)[:width+1]), ' ')
			if cut <= len(indent) { // a word longer than the line, such as a path
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
