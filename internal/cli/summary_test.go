package cli

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"optibfm/configs"
	"optibfm/internal/fatal"
	"optibfm/internal/lockstep"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/internal/summary"
	"optibfm/internal/terminal"
)

func TestSummary_FitsIn80ColumnsAndAdvisesCommands(t *testing.T) {
	s := rigtest.NewSession(t, func(f *configs.File) {
		f.Run.Lockstep, f.Run.DurationS, f.Run.EpisodeS, f.Run.Episodes = true, 0, 1, 2
	})
	var err error
	s.Model, err = setup.OpenModel(s.File.Model.Bundle)
	fatal.If(t, err)
	o, err := lockstep.Run(t.Context(), s, terminal.QuietDisplay{})
	fatal.If(t, err)
	s.Invoked, o.LogPath = invocation("./optibfm", runFlags{config: configs.DefaultName()}, s.File), "logs/a.mcap"
	s.File.Run.Lockstep = false // print it as a run in real time does
	o.Posture = "lock_memory: all memory locked: not granted " +
		"(the limit of locked memory is 64 KiB; it is not locked): run as root, or set LimitMEMLOCK=infinity" +
		"\ntimer_slack_ns: 1: granted"
	var out bytes.Buffer
	fatal.If(t, summary.Print(t.Context(), &out, s, o, false))
	for line := range strings.Lines(out.String()) {
		if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > 80 {
			t.Errorf("too long: %q", line)
		}
	}
	rigtest.Contains(t, out.String(),
		"compare", "oracle",
		"    ./optibfm replay logs/a.mcap\n", "    ./optibfm run --operator keyboard\n", "    ./optibfm run --task ",
	)
}
