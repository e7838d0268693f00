package jitter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/internal/rigtest"
	"optibfm/rtloop"
)

func TestHistogram_AddsCyclictestResults(t *testing.T) {
	c := &Histogram{}
	for _, text := range []string{
		`{"thread": {"0": {"histogram": {"10": 500, "20": 480, "1500": 10}, "cycles": 1000, "max": 250000}}}`,
		`{"thread": {"0": {"histogram": {"10": 1000}, "cycles": 1000, "max": 10}}}`,
	} {
		if err := c.addCyclictest([]byte(text), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	const us = time.Microsecond
	c.counts = nil
	want := Histogram{Cycles: 2000, P50: 10 * us, P99: 20 * us, P999: 250_000 * us, Max: 250_000 * us, Missed: 20}
	if !reflect.DeepEqual(*c, want) {
		t.Fatalf("%+v, want %+v", *c, want)
	}
}

func TestHistogram_RefusesInvalidCyclictestResults(t *testing.T) {
	const invalid = `{"thread": {"0": {"histogram": {"%s": 1}}}}`
	for _, text := range []string{"", "{", "{}", fmt.Sprintf(invalid, "x"), fmt.Sprintf(invalid, "-1")} {
		err := new(Histogram).addCyclictest([]byte(text), time.Millisecond)
		if err == nil || !strings.Contains(err.Error(), "--alone") {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

func TestMeasure_MeasuresLoopUnderLoad(t *testing.T) {
	o := Options{PeriodMS: 2, Seconds: 0.2, Slice: 0.1, Hogs: 1, Alone: true}
	r, err := Measure(t.Context(), o)
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

func TestMeasure_RefusesInvalidOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"seconds -1": {PeriodMS: 1, Seconds: -1, Slice: 1},
		"slice 0":    {PeriodMS: 1, Seconds: 1},
		"hog -1":     {PeriodMS: 1, Seconds: 1, Slice: 1, Hogs: -1},
		"period_ms":  {Seconds: 1, Slice: 1},
		"--config":   {PeriodMS: 1, Seconds: 1, Slice: 1, Set: []string{"a=b"}},
	} {
		if _, err := Measure(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %s", err, want)
		}
	}
}

func TestCyclictestArguments_MatchLoop(t *testing.T) {
	cfg := rtloop.DefaultConfig()
	cfg.PeriodMS, cfg.Priority, cfg.CPUs = 2.5, 70, []int{1, 3}
	got := strings.Join(cyclictestArguments(cfg, time.Second, "/tmp/r"), " ")
	for _, want := range []string{"--interval=2500", "--loops=400", "--priority=70", "--affinity=1,3"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %s", got, want)
		}
	}
}

func TestMeasure_RefusesRobotsWithActuators(t *testing.T) {
	for _, name := range []string{"robot", "composite", "rover-mcu"} {
		_, _, err := newProgramRun(name, nil)
		if err == nil || !strings.Contains(err.Error(), "outputs") {
			t.Errorf("%s: %v, want a refusal", name, err)
			continue
		}
		p, loop, err := newProgramRun(name, rigtest.AdvisedSetValues(err.Error()))
		if err != nil {
			t.Errorf("%s: with the advised keys: %v", name, err)
			continue
		}
		if own, _ := configs.Load(name); loop.PeriodMS != own.Loop.PeriodMS {
			t.Errorf("%s: measured at %v ms, want %v", name, loop.PeriodMS, own.Loop.PeriodMS)
		}
		file, err := configs.Load(name, rigtest.SetValues(p.arguments(t.TempDir(), time.Second))...)
		if err != nil || file.Loop.WatchdogMS != 0 || file.Operator.Source != configs.SourceScripted ||
			file.Operator.Web.WatchOnly {
			t.Errorf("%s: watchdog %v ms, operator %+v, %v", name, file.Loop.WatchdogMS, file.Operator, err)
		}
	}
	p, _, err := newProgramRun("rover", []string{"run.state_dir=/a/belief", "run.start_task=turn"})
	if err != nil {
		t.Fatal(err)
	}
	file, err := configs.Load("rover", rigtest.SetValues(p.arguments(t.TempDir(), time.Second))...)
	if err != nil || file.Run.StartTask != "turn" || file.Run.TaskDir != "/a/tasks" {
		t.Errorf("from a task: %+v, %v", file.Run, err)
	}
	p, _, err = newProgramRun("rover", []string{
		"run.state_dir=/a/belief", "controller.explore.tasks=[turn]", "controller.explore.within_deg=9"})
	if err != nil {
		t.Fatal(err)
	}
	file, err = configs.Load("rover", rigtest.SetValues(p.arguments(t.TempDir(), time.Second))...)
	if err != nil || file.Run.TaskDir != "/a/tasks" {
		t.Errorf("near a task: %+v, %v", file.Run, err)
	}
	if _, _, err := newProgramRun("cheetah", nil); err != nil {
		t.Errorf("a simulator: %v", err)
	}
}
