package plaintext

import (
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
