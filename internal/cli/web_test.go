package cli

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
)

// stopFromPhone sends STOP and waits for the halt and a successful end: systemd does not
// restart the service then.
func stopFromPhone(t *testing.T, w *watched, post func(path, body string) *http.Response, wait func() error) {
	t.Helper()
	pressed := time.Now()
	if got := post("/stop", "").StatusCode; got != http.StatusNoContent {
		t.Fatalf("STOP: status %d", got)
	}
	t.Logf("halted %v after STOP was sent", w.waitHalted(t, pressed))
	errtest.Nil(t, wait(), "the program ended")
}

func TestConsole_LabelCountsAndStopHalts(t *testing.T) {
	t.Parallel()
	w, set := serveWatched(t)
	cmd := program(t, append(set, "operator.source=web", "operator.web.listen=127.0.0.1:0",
		"operator.web.max_late_s=60")...)
	output := startShared(t, cmd)
	p := rigtest.PairPhone(t, output)
	if got := p.Press("good"); got != "counted" {
		t.Errorf("the press was %s, want counted", got)
	}
	stopFromPhone(t, w, p.Post, cmd.Wait)
	labels, stops := 0, 0
	for r, err := range onlyLog(t, cmd).Records() {
		fatal.If(t, err)
		if r.Label != nil && r.Label.Value == 1 {
			labels++
		}
		if r.Event != nil && strings.Contains(r.Event.Text, "STOP was pressed") {
			stops++
		}
	}
	if labels != 1 || stops != 1 {
		t.Errorf("the log has %d labels and %d events of STOP, want one of each", labels, stops)
	}
	rigtest.Contains(t, output.String(), "STOP was pressed in the web console, on device 1", "NOT the emergency stop")
}

func TestConsole_WithoutAnAddressNeverKeepsTheRobotFromRunning(t *testing.T) {
	t.Parallel()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	defer other.Close()
	for name, listen := range map[string]string{"absent": "203.0.113.77:8642", "in use": other.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			w, set := serveWatched(t)
			cmd := program(t, append(set, "operator.source=web", "operator.web.max_late_s=60",
				"operator.web.listen="+listen)...)
			output := startShared(t, cmd)
			waitFor(t, output, "no console")
			if !rigtest.WaitUntil(rigtest.HangGuard, func() bool { return w.acts.Load() >= 3 }) {
				t.Fatalf("the robot did not move:\n%s", output)
			}
			if name == "in use" {
				fatal.If(t, other.Close())
				waitFor(t, output, "the console is at http://"+listen)
				p := rigtest.PairPhone(t, output)
				if got := p.Press("good"); got != "counted" {
					t.Errorf("the press was %s, want counted", got)
				}
			}
			fatal.If(t, cmd.Process.Signal(os.Interrupt))
			fatal.If(t, cmd.Wait())
			found := 0
			for r, err := range onlyLog(t, cmd).Records() {
				fatal.If(t, err)
				if r.Event != nil && strings.Contains(r.Event.Text, "no console") {
					found++
				}
			}
			if found != 1 {
				t.Errorf("the log has %d events of the console without an address, want 1", found)
			}
		})
	}
}

func TestConsole_FirstPressStartsASimulator(t *testing.T) {
	t.Parallel()
	cmd := program(t, "operator.source=web", "operator.web.listen=127.0.0.1:0", "operator.web.max_late_s=60",
		"operator.web.refractory_ms=0", "run.duration_s=0", "run.episode_s=0")
	output := startShared(t, cmd)
	p := rigtest.PairPhone(t, output)
	waitFor(t, output, "the robot waits for you: press any key or Good in the browser to start it")
	if got := p.Press("good"); got != "refused" {
		t.Errorf("the first press was %s, want refused: it starts the robot", got)
	}
	waitFor(t, output, "the operator started the robot")
	if got := p.Press("good"); got != "counted" {
		t.Errorf("the second press was %s, want counted", got)
	}
	fatal.If(t, cmd.Process.Signal(os.Interrupt))
	fatal.If(t, cmd.Wait())
	checkVerified(t, onlyLog(t, cmd))
}

func TestConsole_SavesLoadsAndBeginsTasks(t *testing.T) {
	t.Parallel()
	w, set := serveWatched(t)
	folder := t.TempDir()
	cmd := program(t, append(set, "operator.source=web", "operator.web.listen=127.0.0.1:0",
		"run.task_dir="+folder)...)
	output := startShared(t, cmd)
	p := rigtest.PairPhone(t, output)
	for _, kind := range []string{"good", "bad", "goal", "undo"} {
		if got := p.Press(kind); got != "counted" {
			t.Errorf("%s was %s, want counted", kind, got)
		}
	}
	for _, c := range []struct {
		kind, name, refused string
		labels              uint64 // on the page afterwards
	}{
		{"load", "walk", "no task walk", 2},
		{"save", "../walk", "not a name", 2},
		{"save", "walk", "", 2},
		{"new", "", "", 0},
		{"save", "nothing", "no label", 0},
		{"load", "walk", "", 2},
	} {
		got := p.ChangeTask(c.kind, c.name)
		p.AwaitLabels(c.labels)
		if (got == "") != (c.refused == "") || !strings.Contains(got, c.refused) {
			t.Errorf("%s %q: %q, want %q", c.kind, c.name, got, c.refused)
		}
	}
	stopFromPhone(t, w, p.Post, cmd.Wait)
	shown, err := execute("task", "show", "walk", "--set", "run.task_dir="+folder)
	fatal.If(t, err)
	rigtest.Contains(t, shown, "belief    2 labels, ")
	rigtest.Contains(t, output.String(),
		"began a task without labels", "switched to the task walk", "labels    2 used;", "undone 1,",
	)
	checkVerified(t, onlyLog(t, cmd))
}

func TestConsole_EndKeepsTheTaskAndRaisesAnAlarm(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    func(cmd *exec.Cmd, p *rigtest.Phone)
		failed bool
		shown  string // on the page and on the terminal
	}{
		"Ctrl-C": {
			func(cmd *exec.Cmd, _ *rigtest.Phone) { fatal.If(t, cmd.Process.Signal(os.Interrupt)) }, false, "",
		},
		"STOP": {func(_ *exec.Cmd, p *rigtest.Phone) { p.Post("/stop", "") }, true, ""},
		"the control process is killed": {
			func(cmd *exec.Cmd, _ *rigtest.Phone) { fatal.If(t, cmd.Process.Kill()) }, true,
			"the control process died; the robot stopped only if it has its own deadman: check the robot first",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, set := serveWatched(t)
			tasks := t.TempDir()
			cmd := program(t, append(set, "operator.source=web", "operator.web.listen=127.0.0.1:0",
				"run.task_dir="+tasks)...)
			output := startShared(t, cmd)
			p := rigtest.PairPhone(t, output)
			if got := p.Press("good"); got != "counted" {
				t.Errorf("the press was %s, want counted", got)
			}
			end := p.Ending(func() { c.end(cmd, p) })
			_ = cmd.Wait() // returns when the host has closed the output
			if end.Failed != c.failed || !strings.Contains(end.Ended, c.shown) {
				t.Errorf("the page shows %+v, want an alarm %t with %q", end, c.failed, c.shown)
			}
			_, keep, found := strings.Cut(end.Keep, " task save ")
			for _, want := range []string{c.shown, end.Keep} {
				if !found || !strings.Contains(output.String(), want) {
					t.Errorf("no %q in\n%s", want, output)
				}
			}
			args := strings.Fields(strings.Replace("task save "+keep, "NAME", "walk", 1))
			if text, err := programOutput(t, args...); err != nil {
				t.Errorf("%q: %v\n%s", args, err, text)
			}
			errtest.Nil(t, errtest.Of(os.Stat(tasks+"/walk.task")))
		})
	}
}

func TestConsole_WatchOnlyStops(t *testing.T) {
	t.Parallel()
	w, set := serveWatched(t)
	cmd := program(t, append(set, "operator.source=none", "operator.web.watch_only=true",
		"operator.web.listen=127.0.0.1:0")...)
	p := rigtest.PairPhone(t, startShared(t, cmd))
	if !rigtest.WaitUntil(rigtest.HangGuard, func() bool { return w.acts.Load() >= 3 }) {
		t.Fatal("the robot did not move")
	}
	stopFromPhone(t, w, p.Post, cmd.Wait)
}

// scripts/vm/image.sh sets OPTIBFM_CONSOLE to the address that a robot printed.
func TestConsole_ForwardedLabelCounts(t *testing.T) {
	address := os.Getenv("OPTIBFM_CONSOLE")
	if address == "" {
		t.Skip("OPTIBFM_CONSOLE is not set")
	}
	if got := rigtest.PairPhone(t, bytes.NewBufferString(address)).Press("good"); got != "counted" {
		t.Errorf("the press was %s, want counted", got)
	}
}
