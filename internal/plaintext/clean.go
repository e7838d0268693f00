package plaintext

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Clean makes text from a file or another process harmless for a terminal: without control characters and
// marks that change the direction or hide text, and with every rune one column wide.
func Clean(s string) string {
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
