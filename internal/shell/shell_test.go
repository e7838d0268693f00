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

func TestProgramName_IsAsItWasStarted(t *testing.T) {
	for path, want := range map[string]string{
		"./optibfm":                          "./optibfm",
		"/no/such/optibfm":                   "/no/such/optibfm",
		"/tmp/go-build1234/b001/exe/optibfm": "go run ./cmd/optibfm",
		"/opt/my tools/optibfm":              "'/opt/my tools/optibfm'",
	} {
		if got := ProgramName(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
