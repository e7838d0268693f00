package jitter

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/internal/rigtest"
	"optibfm/rtloop"
)

func TestCyclictestRun_AddsHistograms(t *testing.T) {
	c := newCyclictestRun()
	const first = `{"thread": {"0": {"histogram": {"10": 500, "20": 480, "1500": 10}, "cycles": 1000, "min": 10, "max": 250000}}}`
	const second = `{"thread": {"0": {"histogram": {"10": 1000}, "cycles": 1000, "max": 10}}}`
	for _, text := range []string{first, second} {
		if err := c.Add([]byte(text), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	us := time.Microsecond
	if c.Cycles != 2000 || c.P50 != 10*us || c.P99 != 20*us || c.P999 != 250000*us || c.Max != 250000*us || c.Missed != 20 {
		t.Fatalf("%+v", c)
	}
}

func TestCyclictestRun_RefusesInvalidResults(t *testing.T) {
	for _, text := range []string{"", "{", "{}", `{"thread": {"0": {"histogram": {"x": 1}}}}`, `{"thread": {"0": {"histogram": {"-1": 1}}}}`} {
		if err := newCyclictestRun().Add([]byte(text), time.Millisecond); err == nil || !strings.Contains(err.Error(), "--alone") {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

func TestJitter_MeasuresTheLoopUnderLoad(t *testing.T) {
	o := Options{PeriodMS: 2, Seconds: 0.2, Slice: 0.1, Hogs: 1, Alone: true}
	r, err := Measure(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Identity || r.Loop.Ticks == 0 || r.Loop.Lateness.Count == 0 {
		t.Fatalf("%+v", r)
	}
	var out bytes.Buffer
	if err := r.Print(&out, false); err != nil || !strings.Contains(out.String(), "cyclictest omitted") {
		t.Fatalf("error %v, %s", err, &out)
	}
	out.Reset()
	if err := r.Print(&out, true); err != nil {
		t.Fatal(err)
	}
	var again Result
	if err := json.Unmarshal(out.Bytes(), &again); err != nil || again.Loop.Ticks != r.Loop.Ticks {
		t.Fatalf("error %v, %s", err, &out)
	}
}

func TestJitter_RefusesInvalidTimes(t *testing.T) {
	for want, o := range map[string]Options{
		"seconds -1": {PeriodMS: 1, Seconds: -1, Slice: 1},
		"slice 0":    {PeriodMS: 1, Seconds: 1},
		"hog -1":     {PeriodMS: 1, Seconds: 1, Slice: 1, Hogs: -1},
		"period_ms":  {Seconds: 1, Slice: 1},
	} {
		if _, err := Measure(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %s", err, want)
		}
	}
}

func TestCyclictestArguments_MatchTheLoop(t *testing.T) {
	cfg := rtloop.DefaultConfig()
	cfg.PeriodMS, cfg.Priority, cfg.CPUs = 2.5, 70, []int{1, 3}
	got := strings.Join(cyclictestArguments(cfg, time.Second, "/tmp/r"), " ")
	for _, want := range []string{"--interval=2500", "--loops=400", "--priority=70", "--affinity=1,3"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %s", got, want)
		}
	}
}

// realRobots are the ready-made configurations of robots with actuators.
var realRobots = []string{"robot", "composite", "rover-mcu"}

func TestJitter_RefusesRobotsWithActuators(t *testing.T) {
	for _, name := range realRobots {
		_, _, err := NewProgramRun(name, nil)
		if err == nil || !strings.Contains(err.Error(), "outputs") {
			t.Errorf("%s: %v, want a refusal", name, err)
			continue
		}
		p, loop, err := NewProgramRun(name, rigtest.AdvisedSetValues(err.Error()))
		if err != nil {
			t.Errorf("%s: the advice leads to %v", name, err)
			continue
		}
		if own, _ := configs.Load(name); loop.PeriodMS != own.Loop.PeriodMS {
			t.Errorf("%s: measured at %v ms, want %v", name, loop.PeriodMS, own.Loop.PeriodMS)
		}
		file, err := configs.Load(name, rigtest.SetValues(p.arguments(t.TempDir(), time.Second))...)
		if err != nil || file.Loop.WatchdogMS != 0 || file.Operator.Source != configs.SourceScripted || file.Operator.Web.WatchOnly {
			t.Errorf("%s: watchdog %v ms, operator %+v, %v", name, file.Loop.WatchdogMS, file.Operator, err)
		}
	}
	if _, _, err := NewProgramRun("cheetah", nil); err != nil {
		t.Errorf("a simulator: %v", err)
	}
}
