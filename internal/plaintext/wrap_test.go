package plaintext

import (
	"strings"
	"testing"
)

func TestWrapBreaksTextButNotCommands(t *testing.T) {
	long := strings.Repeat("word ", 30)
	for line := range strings.Lines(Wrap("  " + long)) {
		if len(strings.TrimRight(line, "\n")) > 80 || !strings.HasPrefix(line, "  word") && !strings.HasPrefix(line, "    word") {
			t.Errorf("%q", line)
		}
	}
	command := "    optibfm replay " + strings.Repeat("very/", 30) + "long file.mcap"
	if got := Wrap(command); got != command+"\n" {
		t.Errorf("%q", got)
	}
}
