package control

import (
	"io"
	"path/filepath"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/hal/rover"
	"optibfm/internal/fatal"
	"optibfm/internal/host"
	"optibfm/internal/ipc"
	"optibfm/internal/plaintext"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/internal/terminal"
	"optibfm/rewardsrc/scripted"
	"optibfm/rtloop"
)

// TestTwoProcesses_MemoryIsConstant runs both halves of a real-time run in one process, on a clock
// that the test turns: control loop, planner, label intake, recorder with its log, belief saver and
// display.
func TestTwoProcesses_MemoryIsConstant(t *testing.T) {
	ticks := rigtest.SoakTicks()
	const period = 20 * time.Millisecond
	now := int64(time.Hour)
	s := rigtest.NewSession(t, func(f *configs.File) {
		f.Loop.PeriodMS = 20
		rigtest.EditRobot(f, func(c *rover.Config) { c.PeriodMS, c.Now = 20, func() int64 { return now } })
		f.Run.StateDir = filepath.Join(t.TempDir(), "state")
		f.Run.DurationS, f.Run.EpisodeS, f.Run.Episodes = 0, 10, 0
		f.Controller.Gate.Kappa = 0.001 // ask as often as the budget of requests allows
		f.Operator.Scripted.Mode, f.Operator.Scripted.DelayS = scripted.WhenAsked, 0.3
	})
	robot, err := rover.New(rigtest.Section[rover.Config](s.File))
	fatal.If(t, err)
	e := newRun(t, s, robot)
	h := newTestHost(t, e, robot.Spec(), func() time.Time { return time.Unix(0, now) })
	kept := h.StartSaver()
	m := rigtest.NewMemory(ticks)
	for i := range ticks {
		now += int64(period)
		e.host.HostBeat.Add(1)
		fatal.If(t, e.onBeat(rtloop.Beat{Index: i, Elapsed: min(i, 1), Deadline: now, Wake: now}))
		state, fresh, err := e.host.NewestState()
		fatal.If(t, err)
		if fresh {
			fatal.If(t, h.Planner.Answer(state))
		}
		fatal.If(t, h.TakeTicks())
		h.TakeNotes()
		m.Sample(i)
	}
	kept()
	y, log := h.Recorder.Statistics, h.Recorder.Log
	if h.Recorder.Err != nil || y.Dropped > 0 || y.Ticks != ticks || y.Applied < ticks/500 {
		t.Errorf("%d ticks, %d dropped, %d labels, log: %v", y.Ticks, y.Dropped, y.Applied, h.Recorder.Err)
	}
	fatal.If(t, h.Close())
	t.Logf("%d labels, %d episodes, log %s", y.Applied, y.Episodes, plaintext.Bytes(log.Stats().Bytes))
	m.CheckConstant(t)
}

// newTestHost returns the host process of a run, with a log on a clock.
func newTestHost(t *testing.T, e *testRun, spec hal.Spec, now func() time.Time) *host.Process {
	t.Helper()
	s := e.session
	h := &host.Process{
		Session: s, Link: e.host, Config: ipc.HostConfig{Spec: spec, Show: terminal.ShowLines},
		Display: terminal.NewLineDisplay(io.Discard, terminal.ShowLines),
	}
	source, err := setup.OpenScripted(s.File.Operator)
	fatal.If(t, err)
	log, err := flightlog.Create(filepath.Join(s.File.Log.Dir, "run.mcap"), flightlog.Metadata{
		Robot: spec, Shape: s.Shape(), Control: s.File.Controller, Config: s.YAML,
	}, flightlog.Options{Now: now, FlushEvery: time.Duration(s.File.Log.FlushMS * float64(time.Millisecond))})
	fatal.If(t, err)
	fatal.If(t, h.OpenPlanner())
	h.Connect(log, source)
	first, err := h.Planner.First()
	fatal.If(t, err)
	h.Recorder.Snapshot(first)
	h.Display.Begin(s, spec, nil, h.Recorder.Statistics)
	return h
}
