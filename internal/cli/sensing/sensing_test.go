package sensing

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/hal/feetech/feetechtest"
	"optibfm/hal/haltest"
	"optibfm/internal/control"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
)

const device = "robot.composite.devices[0].feetech."

func TestWatch_PrintsTheRangesThatItRead(t *testing.T) {
	spec := haltest.Spec(3, 1)
	spec.Period = time.Millisecond
	spec.Obs[1].Unit, spec.Obs[1].Min, spec.Obs[1].Max = "rad", -1, 1
	spec.Obs[2].Min, spec.Obs[2].Max = -1, 1
	robot := haltest.New(spec)
	ctx, cancel := context.WithCancel(t.Context())
	failed := false
	robot.Observe = func(n int, obs []float32) error {
		if n == 1 && !failed {
			failed = true
			obs[0] = 99 // of a failed read
			return errors.New("a wire\x1b is loose")
		}
		if n == 2 {
			cancel()
		}
		copy(obs, [][]float32{{1, 0.5, 0}, {-2, -1.5, 0.5}, {0.25, 0, 0}}[n])
		return nil
	}
	var out bytes.Buffer
	errtest.Nil(t, watch(ctx, robot, &out))
	for _, want := range []string{
		"o0 0.25 -2 1 none", "o1 rad 0 -1.5 0.5 -1 to 1 (exceeded)", "o2 0 0 0.5 -1 to 1",
		"3 samples, 1 failed reads; the last: a wire", "is loose",
	} {
		if got := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "\x1b") || strings.Count(out.String(), "greatest") != 1 {
		t.Errorf("not one clean table: %q", out.String())
	}
	if robot.Arms+robot.Acts > 0 {
		t.Errorf("armed %d times, acted %d times", robot.Arms, robot.Acts)
	}
}

func TestWatch_ReportsThatNothingAnswers(t *testing.T) {
	robot := haltest.New(haltest.Spec(1, 1))
	robot.SenseErr = errors.New("no power")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errtest.Is(t, watch(ctx, robot, &bytes.Buffer{}), robot.SenseErr)
}

func TestRedraw_FitsTheScreen(t *testing.T) {
	spec := haltest.Spec(40, 1)
	spec.Obs[3].Name = strings.Repeat("long", 30)
	r := newRanges(spec)
	r.read(haltest.New(spec))
	read, write, err := os.Pipe()
	fatal.If(t, err)
	r.redraw(write) // a pipe has no size: 80 x 24
	fatal.If(t, write.Close())
	text, err := io.ReadAll(read)
	fatal.If(t, err)
	screen, cleared := strings.CutPrefix(string(text), clearScreen)
	lines := strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
	if !cleared || len(lines) != 23 || !strings.HasPrefix(lines[22], "19 more; Ctrl-C shows all. 1 samples") {
		t.Errorf("%d lines:\n%s", len(lines), screen)
	}
	for _, line := range lines {
		if len(line) > 80 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

// A person moves the limp servos of a chain on a real pseudo-terminal.
func TestRun_LeavesLimpServosLimp(t *testing.T) {
	chain, err := feetechtest.New(feetechtest.NewServo(1, 0), feetechtest.NewServo(2, 1))
	fatal.If(t, err)
	t.Cleanup(func() { _ = chain.Close() })
	chain.Set(1, feetechtest.Place, 2, 3072) // a quarter of a turn
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var out bytes.Buffer
	set := []string{device + "port.path=" + chain.Path, "safety.socket="}
	var warnings bytes.Buffer
	if err := Run(ctx, rigtest.GripperFile, set, &out, &warnings); err != nil {
		t.Fatal(err)
	}
	rigtest.Contains(t, warnings.String(), "safety.socket is empty")
	if !strings.Contains(out.String(), "1.571") {
		t.Errorf("no quarter of a turn in\n%s", &out)
	}
	for id := range byte(2) {
		if chain.Get(id+1, feetechtest.Torque, 1) != 0 {
			t.Errorf("servo %d has torque", id+1)
		}
	}
	if goal := chain.Get(1, feetechtest.Goal, 2); goal != 2048 {
		t.Errorf("the goal changed to %d", goal)
	}
}

func TestRun_Refuses(t *testing.T) {
	socket := "safety.socket=" + filepath.Join(t.TempDir(), "s")
	file, err := configs.Load("servo-arm", socket)
	fatal.If(t, err)
	held, err := control.Listen(file.Safety)
	fatal.If(t, err)
	defer func() { _ = held.Close() }()
	for _, c := range []struct {
		config, set, want string
	}{
		{"rover", "run.seed=1", "simulated"},
		{"servo-arm", "run.shadow=true", "run.shadow"},
		{"servo-arm", socket, control.ErrSocketInUse.Error()},
		{"servo-arm", "safety.socket=" + filepath.Join(os.DevNull, "s"), "not a directory"},
		{"absent.yaml", "run.seed=1", "absent.yaml"},
	} {
		err := Run(t.Context(), c.config, []string{c.set}, io.Discard, io.Discard)
		errtest.Contains(t, err, c.want)
	}
}
