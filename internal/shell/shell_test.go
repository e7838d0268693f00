package shell

import (
	"os/exec"
	"testing"
)

func TestQuote_IsReadBackByAShell(t *testing.T) {
	for _, word := range []string{
		"logs/20260101-120000-rover.mcap", "dm_control walker.mcap", "it's", `a"b`, "$HOME", "a;b", "a\nb", "*", "~",
		"-", "", "ü", `back\slash`, "#", "a=b", "`id`", "!",
	} {
		out, err := exec.Command("sh", "-c", "printf %s "+Quote(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q: Quote returns %s, the shell reads %q (%v)", word, Quote(word), out, err)
		}
	}
}

func TestQuote_LeavesPlainWordsAlone(t *testing.T) {
	const word = "./logs/20260101-120000-rover_2.mcap"
	if Quote(word) != word {
		t.Errorf("got %s", Quote(word))
	}
}
