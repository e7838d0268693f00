package plaintext

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Clean makes text from a file or another process harmless for a terminal: without control
// characters and marks that change the direction or hide text, and with every rune one column wide.
// It joins lines with semicolons.
func Clean(s string) string {
	s = Line(s)
	return strings.Map(func(r rune) rune {
		switch {
		case r >= ' ' && r < 0x7f:
			return r
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return '?'
		case unicode.In(r, unicode.Mn, unicode.Me):
			return -1
		}
		switch width.LookupRune(r).Kind() {
		case width.EastAsianWide, width.EastAsianFullwidth:
			return '?'
		}
		return r
	}, s)
}

// Line joins the lines of a text, such as joined errors, with semicolons.
func Line(s string) string { return strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "; ") }
