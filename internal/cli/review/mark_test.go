package review

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/flightlog"
	"optibfm/internal/fatal"
)

func TestReplay_MarksNoLabelsOfAPerson(t *testing.T) {
	simulated, w := writeChunks(t)
	fatal.If(t, w.Close())
	person := writeLog(t, false) // its configuration names no operator
	page := filepath.Join(t.TempDir(), "report.html")
	for _, o := range []Options{{}, {Page: page}} {
		for path, want := range map[string]bool{simulated: true, person: false} {
			_ = os.Remove(path + ".replayed")
			out, err := replayed(t, path, o)
			fatal.If(t, err)
			if flightlog.Replayed(path) != want || strings.Contains(out, "marked     yes") != want ||
				strings.Contains(out, "marked     no: a person gave its labels") == want {
				t.Errorf("%+v, marked %v, want %v:\n%s", o, flightlog.Replayed(path), want, out)
			}
		}
	}
	fatal.If(t, Release([]string{person}))
	if !flightlog.Replayed(person) {
		t.Error("the released log is not marked")
	}
}
