package plaintext_test

import (
	"io"
	"strings"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/plaintext"
)

func TestWriter_PassesNoEscapeSequence(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb\n":                       "a\tb\n",
		"\x1b]0;title\x07run.mcap\r\n": "?]0;title?run.mcap?\n",
		"\u009b31mred\u202etxt":        "?31mred?txt",
		"für 歩く {\"φ\":1}":             "für 歩く {\"φ\":1}",
		"\xff\x9b":                     "??",
	} {
		var out strings.Builder
		w := plaintext.NewWriter(&out)
		for i := range len(text) { // writes that split runes
			fatal.If(t, errtest.Of(io.WriteString(w, text[i:i+1])))
		}
		if out.String() != want || plaintext.Printable(text) != want {
			t.Errorf("%q: %q, %q, want %q", text, out.String(), plaintext.Printable(text), want)
		}
	}
}
