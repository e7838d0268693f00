package jitter

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
)

func TestMeasure_MeasuresLoopUnderLoad(t *testing.T) {
	o := Options{PeriodMS: 2, Seconds: 0.2, Slice: 0.1, Hogs: 1}
	r, err := Measure(t.Context(), o)
	fatal.If(t, err)
	if !r.Identity || r.Loop.Ticks == 0 || r.Loop.Lateness.Count == 0 {
		t.Fatalf("%+v", r)
	}
	var out bytes.Buffer
	if err := r.Print(&out, false); err != nil || !strings.Contains(out.String(), "ticks run +") {
		t.Fatalf("error %v, %s", err, &out)
	}
	out.Reset()
	fatal.If(t, r.Print(&out, true))
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
		errtest.Contains(t, errtest.Of(Measure(t.Context(), o)), want)
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
	fatal.If(t, err)
	file, err := configs.Load("rover", rigtest.SetValues(p.arguments(t.TempDir(), time.Second))...)
	if err != nil || file.Run.StartTask != "turn" || file.Run.TaskDir != "/a/tasks" {
		t.Errorf("from a task: %+v, %v", file.Run, err)
	}
	p, _, err = newProgramRun("rover", []string{
		"run.state_dir=/a/belief", "controller.explore.tasks=[turn]", "controller.explore.within_deg=9"})
	fatal.If(t, err)
	file, err = configs.Load("rover", rigtest.SetValues(p.arguments(t.TempDir(), time.Second))...)
	if err != nil || file.Run.TaskDir != "/a/tasks" {
		t.Errorf("near a task: %+v, %v", file.Run, err)
	}
	if _, _, err := newProgramRun("cheetah", nil); err != nil {
		t.Errorf("a simulator: %v", err)
	}
}
