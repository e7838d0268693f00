package shell

import (
	"testing"
)

func TestInvoked_NamesTheProgramAsItWasStarted(t *testing.T) {
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
