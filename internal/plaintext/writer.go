package plaintext

import (
	"io"
	"strings"
	"unicode"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
)

// Printable makes text harmless for a terminal, as Clean does, and keeps its lines, tabs and wide
// characters.
func Printable(s string) string { return strings.Map(printable, s) }

// NewWriter returns a writer of Printable text. The names of files and of channels can contain
// escape sequences, which a terminal would execute.
func NewWriter(out io.Writer) io.Writer { return transform.NewWriter(out, runes.Map(printable)) }

func printable(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return r
	case r == unicode.ReplacementChar || !unicode.IsPrint(r):
		return '?'
	}
	return r
}
