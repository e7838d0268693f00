package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"optibfm/hal"
)

func TestSession_ALogsNameIsSafeForAnyRobotName(t *testing.T) {
	safe := regexp.MustCompile(`^[A-Za-z0-9._-]{1,200}$`)
	for _, name := range []string{
		"rover", "dm_control walker", "../../etc/passwd", "a/b", "", "-rf *", "Roboter Müller", "it's $HOME;`id`\n", "\x00",
		strings.Repeat("long ", 200), "AntMaze (large)",
	} {
		s := testSession(t, nil)
		w, path, err := s.createLog(hal.Spec{Name: name, Period: 1}, "", true)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if err := w.Close(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if base := filepath.Base(path); filepath.Dir(path) != s.file.Log.Dir || !safe.MatchString(base) {
			t.Errorf("%q: the log is %s", name, path)
		}
	}
	if got := fileName("dm_control walker"); got != "dm_control-walker" {
		t.Errorf("found %s", got)
	}
}
