package main

import (
	"strings"
	"testing"
)

func TestARobotWhoseTimeOutsOutlastTheWatchdogIsNotStarted(t *testing.T) {
	w, set := serveWatched(t)
	out, err := program(t, append(set, "robot.bridge.timeout_ms=100", "loop.watchdog_ms=150", "run.duration_s=1")...).CombinedOutput()
	if text := strings.Join(strings.Fields(string(out)), " "); err == nil || !strings.Contains(text, "Sense and Act may take 200ms together") {
		t.Errorf("%v\n%s", err, out)
	}
	if w.acts.Load()+int64(w.Arms) != 0 {
		t.Error("it moved")
	}
}
