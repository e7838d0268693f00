package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/hal/rover"
	"optibfm/rewardsrc/scripted"
	"optibfm/rtloop"
)

// soakVariable sets the number of ticks of the tests of memory: 4,320,000 are a day at
// 50 Hz, and take half an hour or more.
const soakVariable = "OPTIBFM_SOAK_TICKS"

func soakTicks() uint64 {
	if n, err := strconv.ParseUint(os.Getenv(soakVariable), 10, 64); err == nil {
		return n
	}
	if testing.Short() {
		return 6000
	}
	return 24_000
}

// memory is what a process needs during a run, sampled at equal distances.
type memory struct {
	every   uint64 // ticks
	samples []memorySample
}

type memorySample struct {
	tick     uint64
	heap     uint64 // bytes that are in use after a garbage collection
	resident string // what the kernel says before it
}

func newMemory(ticks uint64) *memory { return &memory{every: max(1, ticks/24)} }

func (m *memory) look(tick uint64) {
	if tick%m.every != 0 {
		return
	}
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	resident, _, _ := strings.Cut(rest, "\n")
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	m.samples = append(m.samples, memorySample{tick, stats.HeapAlloc, strings.TrimSpace(resident)})
}

// constant asserts that the heap does not grow after the first sixth of a run. What is
// left over is for buffers that grow to the size of the largest chunk.
func (m *memory) constant(t *testing.T) {
	t.Helper()
	for _, s := range m.samples {
		t.Logf("%9d ticks: heap %6d KiB, VmRSS %s", s.tick, s.heap>>10, s.resident)
	}
	const margin = 256 << 10
	early := m.samples[len(m.samples)/6].heap
	for _, s := range m.samples[len(m.samples)/6:] {
		if s.heap > early+margin {
			t.Errorf("after %d ticks the heap is %d bytes; it was %d", s.tick, s.heap, early)
		}
	}
}

// sampler is a display that looks at the memory.
type sampler struct {
	*lineDisplay
	memory *memory
}

func (s sampler) tick(t *controller.Tick) {
	s.lineDisplay.tick(t)
	s.memory.look(t.Index)
}

func TestLockstep_MemoryIsConstant(t *testing.T) {
	ticks := soakTicks()
	s := testSession(t, func(f *configs.File) {
		f.Run.Lockstep, f.Run.EpisodeS, f.Run.Episodes = true, 2, 0
		f.Run.DurationS = float64(ticks) * f.Loop.PeriodMS / 1e3
		f.Operator.Scripted.Mode = scripted.EveryTick // each label ends a chunk of the log
	})
	show := sampler{newLineDisplay(io.Discard, false), newMemory(ticks)}
	o, err := runLockstep(context.Background(), s, show)
	if err != nil {
		t.Fatal(err)
	}
	if o.tally.ticks != ticks || o.tally.applied < ticks/2 {
		t.Errorf("%d ticks of %d, %d labels", o.tally.ticks, ticks, o.tally.applied)
	}
	show.memory.constant(t)
}

// TestTwoProcesses_MemoryIsConstant runs what both processes of a real-time run do in
// each tick, in one process and on one clock that a test turns: the control loop's
// beat, the planner, the label intake, the recorder with its log, the belief keeper and
// the display.
func TestTwoProcesses_MemoryIsConstant(t *testing.T) {
	ticks := soakTicks()
	const period = 20 * time.Millisecond
	now := int64(time.Hour)
	s := testSession(t, func(f *configs.File) {
		f.Loop.PeriodMS, f.Robot.Rover.PeriodMS = 20, 20
		f.Robot.Rover.Now = func() int64 { return now }
		f.Run.StateDir = filepath.Join(t.TempDir(), "state")
		f.Run.DurationS, f.Run.EpisodeS, f.Run.Episodes = 0, 10, 0
		f.Controller.Gate.Kappa = 0.001 // ask as often as the budget of requests allows
		f.Operator.Scripted.Mode, f.Operator.Scripted.DelayS = scripted.WhenAsked, 0.3
	})
	robot, err := rover.New(s.file.Robot.Rover)
	if err != nil {
		t.Fatal(err)
	}
	e := newTwoEndsWith(t, s, robot)
	h := newTestHost(t, e, robot.Spec(), func() time.Time { return time.Unix(0, now) })
	kept := h.startKeeper()
	m := newMemory(ticks)
	for i := range ticks {
		now += int64(period)
		e.host.hostBeat.Add(1)
		if err := e.beat(rtloop.Beat{Index: i, Elapsed: min(i, 1), Deadline: now, Wake: now}); err != nil {
			t.Fatal(err)
		}
		if state, fresh, err := e.host.newestState(); err != nil {
			t.Fatal(err)
		} else if fresh {
			if err := h.planning.answer(state); err != nil {
				t.Fatal(err)
			}
		}
		if err := h.takeTicks(); err != nil {
			t.Fatal(err)
		}
		h.takeNotes()
		m.look(i)
	}
	kept()
	if h.logErr != nil || h.tally.dropped > 0 || h.tally.ticks != ticks || h.tally.applied < ticks/500 {
		t.Errorf("%d ticks, %d dropped, %d labels, log: %v", h.tally.ticks, h.tally.dropped, h.tally.applied, h.logErr)
	}
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d labels, %d episodes, log %s", h.tally.applied, h.tally.episodes, bytesText(h.log.Stats().Bytes))
	m.constant(t)
}

// newTestHost is the host process at the other end of a control process, with a log on
// a clock.
func newTestHost(t *testing.T, e *twoEnds, spec hal.Spec, now func() time.Time) *host {
	t.Helper()
	s := e.session
	h := &host{
		session: s, link: e.host, orders: orders{Spec: spec, Show: showLines}, tally: newTally(s.shape()),
		display: newLineDisplay(io.Discard, false),
	}
	source, err := openScripted(s.file.Operator)
	if err != nil {
		t.Fatal(err)
	}
	h.watcher = source.(*scripted.Operator)
	h.log, err = flightlog.Create(filepath.Join(s.file.Log.Dir, "run.mcap"), flightlog.Metadata{
		Robot: spec, Shape: s.shape(), Control: s.file.Controller, Config: s.yaml,
	}, flightlog.Options{Now: now, FlushEvery: time.Duration(s.file.Log.FlushMS * float64(time.Millisecond))})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.openPlanning(); err != nil {
		t.Fatal(err)
	}
	if h.keep, err = openKeeper(s.file, "", spec, s.shape().Latent, &e.host.steps, h.planning.events); err != nil {
		t.Fatal(err)
	}
	h.planning.keep = h.keep
	h.desk = newDesk(s.file, source, h.tally, h.labelTime)
	h.desk.log, h.desk.notify = h.log, h.display.label
	first, err := h.planning.first()
	if err != nil {
		t.Fatal(err)
	}
	h.note(h.writeSnapshot(first))
	h.display.begin(s, spec, nil, h.tally)
	return h
}

func TestTally_KeepsABoundedNumberOfReturns(t *testing.T) {
	y := newTally(controller.Shape{Obs: 1, Action: 1, Latent: 1})
	const n = 10 * maxReturns
	for i := range n {
		y.addReturn(float64(i))
	}
	if y.episodes != n || len(y.returns) > maxReturns || cap(y.returns) > 2*maxReturns {
		t.Errorf("%d episodes, %d returns, room for %d", y.episodes, len(y.returns), cap(y.returns))
	}
	newest := y.returns[len(y.returns)-1000:]
	if first := fmt.Sprint(y.returns[:5]); first != "[0 1 2 3 4]" || newest[0] != n-1000 || newest[999] != n-1 {
		t.Errorf("first %s, newest %v to %v", first, newest[0], newest[999])
	}
}
