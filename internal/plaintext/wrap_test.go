package plaintext

import (
	"errors"
	"strings"
	"testing"
)

func TestWrap_BreaksTextButNotCommands(t *testing.T) {
	long := strings.Repeat("word ", 30)
	for line := range strings.Lines(Wrap("  " + long)) {
		text, indented := strings.CutPrefix(line, "  ")
		if len(line) > 81 || !indented || !strings.HasPrefix(strings.TrimPrefix(text, "  "), "word") {
			t.Errorf("%q", line)
		}
	}
	command := "    optibfm replay " + strings.Repeat("very/", 30) + "long file.mcap"
	if got := Wrap(command); got != command+"\n" {
		t.Errorf("%q", got)
	}
}

func TestClean_SeparatesLines(t *testing.T) {
	joined := errors.Join(errors.New("beyond a limit"), errors.New("bridge: closed")).Error()
	for text, want := range map[string]string{
		joined: "beyond a limit; bridge: closed", "one\n": "one", "a\tb\x1b[1m": "a?b?[1m",
	} {
		if got := Clean(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
