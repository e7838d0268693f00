package shell

import "testing"

func TestInvocation_RenamesOnlyTheProgramOfCommands(t *testing.T) {
	for text, want := range map[string]string{
		"see `optibfm log info` or \"optibfm run --lan\"": "see `./mine log info` or \"./mine run --lan\"",
		"sudo -u optibfm optibfm doctor":                  "sudo -u optibfm ./mine doctor",
		"optibfm arm\n  optibfm disarm":                   "./mine arm\n  ./mine disarm",
		"optibfm runs a robot; /usr/bin/optibfm run":      "optibfm runs a robot; /usr/bin/optibfm run",
		"go run ./cmd/optibfm run, optibfm-lab bench":     "go run ./cmd/optibfm run, optibfm-lab bench",
	} {
		if got := (Invocation{Program: "./mine"}).Renamed(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
