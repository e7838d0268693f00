package main

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"optibfm/internal/rigtest"
)

func TestALabelFromABrowserCountsAndItsStopHaltsTheRobotAndEndsTheRun(t *testing.T) {
	t.Parallel()
	w, set := serveWatched(t)
	cmd := program(t, append(set, "operator.source=web", "operator.web.listen=127.0.0.1:0", "operator.web.max_late_s=60")...)
	var output rigtest.SyncBuffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	p := rigtest.PairPhone(t, &output)
	if got := p.Press("good"); got != "counted" {
		t.Errorf("the press was %s, want counted", got)
	}
	pressed := time.Now()
	if got := p.Post("/stop", "").StatusCode; got != http.StatusNoContent {
		t.Fatalf("STOP: status %d", got)
	}
	t.Logf("halted %v after STOP was sent", w.waitHalted(t, pressed))
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v, want success: a service must not start again by itself\n%s", err, &output)
	}
	labels, stops := 0, 0
	for r, err := range onlyLog(t, cmd).Records() {
		switch {
		case err != nil:
			t.Fatal(err)
		case r.Label != nil && r.Label.Value == 1:
			labels++
		case r.Event != nil && strings.Contains(r.Event.Text, "STOP was pressed"):
			stops++
		}
	}
	if labels != 1 || stops != 1 {
		t.Errorf("the log has %d labels and %d words of STOP, want one of each", labels, stops)
	}
	if text := output.String(); !strings.Contains(text, "STOP was pressed in the web console, on device 1") || !strings.Contains(text, "NOT the emergency stop") {
		t.Errorf("the output does not tell:\n%s", text)
	}
}

func TestAConsoleThatOnlyWatchesTakesNoLabelsButStops(t *testing.T) {
	t.Parallel()
	w, set := serveWatched(t)
	cmd := program(t, append(set, "operator.source=none", "operator.web.watch_only=true", "operator.web.listen=127.0.0.1:0")...)
	var output rigtest.SyncBuffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	p := rigtest.PairPhone(t, &output)
	for deadline := time.Now().Add(30 * time.Second); w.acts.Load() < 3 && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	pressed := time.Now()
	if got := p.Post("/stop", "").StatusCode; got != http.StatusNoContent {
		t.Fatalf("STOP: status %d", got)
	}
	w.waitHalted(t, pressed)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v\n%s", err, &output)
	}
}

func TestAConsoleWhoseAddressIsTakenMovesNothing(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w, set := serveWatched(t)
	cmd := program(t, append(set, "operator.source=web", "operator.web.listen="+l.Addr().String())...)
	text, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(text), "operator.web.listen") || w.acts.Load() != 0 {
		t.Errorf("error %v after %d actions, want one that names operator.web.listen and no action:\n%s", err, w.acts.Load(), text)
	}
}
