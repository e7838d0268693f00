package shell

import (
	"os/exec"
	"strings"
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
	const plain = "./logs/20260101-120000-rover_2.mcap"
	if Quote(plain) != plain {
		t.Errorf("%s becomes %s", plain, Quote(plain))
	}
}

func TestOperand_IsNotAFlag(t *testing.T) {
	for path, want := range map[string]string{
		"-x.mcap": "./-x.mcap", "--out": "./--out", "a-b": "a-b", "/-x": "/-x", "": "",
	} {
		if got := Operand(path); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

func TestProgramName_IsHowTheProgramWasStarted(t *testing.T) {
	for path, want := range map[string]string{
		"./optibfm":                              "./optibfm",
		"/no/such/optibfm":                       "/no/such/optibfm",
		"/tmp/go-build1234/b001/exe/optibfm":     "go run ./cmd/optibfm",
		"/tmp/go-build1234/b001/exe/optibfm-lab": "go run ./cmd/optibfm-lab",
		"/opt/my tools/optibfm":                  "'/opt/my tools/optibfm'",
	} {
		if got := ProgramName(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	command := Invocation{Program: "optibfm"}.Command("replay", "logs/my walker.mcap")
	if command != "optibfm replay 'logs/my walker.mcap'" {
		t.Errorf("a path with a space: %s", command)
	}
	command = Invocation{Program: "optibfm"}.Command("run", "--set", "operator.view.url=http://me:s3cret@cam/?k=s3cret")
	if strings.Contains(command, "s3cret") || !strings.Contains(command, "operator.view.url=http://") {
		t.Errorf("an address with a password: %s", command)
	}
}
