package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/rtloop"
)

func TestCyclictestRun_AddsHistograms(t *testing.T) {
	c := newCyclictestRun()
	const first = `{"thread": {"0": {"histogram": {"10": 500, "20": 480, "1500": 10}, "cycles": 1000, "min": 10, "max": 250000}}}`
	const second = `{"thread": {"0": {"histogram": {"10": 1000}, "cycles": 1000, "max": 10}}}`
	for _, text := range []string{first, second} {
		if err := c.add([]byte(text), time.Millisecond); err != nil {
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
		if err := newCyclictestRun().add([]byte(text), time.Millisecond); err == nil || !strings.Contains(err.Error(), "--alone") {
			t.Errorf("%s: error %v", text, err)
		}
	}
}

func TestJitter_MeasuresTheLoopUnderLoad(t *testing.T) {
	o := jitterOptions{periodMS: 2, seconds: 0.2, slice: 0.1, hogs: 1, alone: true}
	r, err := measureJitter(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Identity || r.Loop.Ticks == 0 || r.Loop.Lateness.Count == 0 {
		t.Fatalf("%+v", r)
	}
	var out bytes.Buffer
	if err := r.print(&out, false); err != nil || !strings.Contains(out.String(), "cyclictest omitted") {
		t.Fatalf("error %v, %s", err, &out)
	}
	out.Reset()
	if err := r.print(&out, true); err != nil {
		t.Fatal(err)
	}
	var again jitterResult
	if err := json.Unmarshal(out.Bytes(), &again); err != nil || again.Loop.Ticks != r.Loop.Ticks {
		t.Fatalf("error %v, %s", err, &out)
	}
}

func TestJitter_RefusesInvalidTimes(t *testing.T) {
	for want, o := range map[string]jitterOptions{
		"seconds -1": {periodMS: 1, seconds: -1, slice: 1},
		"slice 0":    {periodMS: 1, seconds: 1},
		"hog -1":     {periodMS: 1, seconds: 1, slice: 1, hogs: -1},
		"period_ms":  {seconds: 1, slice: 1},
	} {
		if _, err := measureJitter(context.Background(), o); err == nil || !strings.Contains(err.Error(), want) {
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

func TestJitter_MeasuresTheWholeProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the program")
	}
	t.Setenv(actAsProgram, "1")
	o := jitterOptions{config: "rover", set: []string{"loop.posture=warn"}, seconds: 4, slice: 4, alone: true}
	r, err := measureJitter(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	p := r.Program
	if p.Cycles == 0 || p.Plans == 0 || p.Labels == 0 || p.Dropped != 0 {
		t.Errorf("%+v: want ticks, plans and labels, and nothing dropped", p)
	}
	// The start and the end may each cost one of the 80 periods.
	if periods := p.Cycles + p.Missed; periods < 78 || periods > 81 {
		t.Errorf("%d ticks and %d missed in 80 periods of 50 ms", p.Cycles, p.Missed)
	}
	if r.PeriodMS != 50 || r.Loop.Period != 50*time.Millisecond {
		t.Errorf("the loop ran at %v ms, want the configuration's 50", r.PeriodMS)
	}
	var out bytes.Buffer
	if err := r.print(&out, false); err != nil || !strings.Contains(out.String(), "and dropped 0 records") {
		t.Errorf("error %v, %s", err, &out)
	}
}

// realRobots are the ready-made configurations of robots with actuators.
var realRobots = []string{"robot", "composite", "rover-mcu"}

func TestJitter_RefusesRobotsWithActuators(t *testing.T) {
	for _, name := range realRobots {
		_, _, err := newProgramRun(name, nil)
		if err == nil || !strings.Contains(err.Error(), "outputs") {
			t.Errorf("%s: %v, want a refusal", name, err)
			continue
		}
		p, loop, err := newProgramRun(name, advisedSets(err.Error()))
		if err != nil {
			t.Errorf("%s: the advice leads to %v", name, err)
			continue
		}
		if own, _ := configs.Load(name); loop.PeriodMS != own.Loop.PeriodMS {
			t.Errorf("%s: measured at %v ms, want %v", name, loop.PeriodMS, own.Loop.PeriodMS)
		}
		file, err := configs.Load(name, setsOf(p.arguments(t.TempDir(), time.Second))...)
		if err != nil || file.Loop.WatchdogMS != 0 || file.Operator.Source != configs.SourceScripted || file.Operator.Web.WatchOnly {
			t.Errorf("%s: watchdog %v ms, operator %+v, %v", name, file.Loop.WatchdogMS, file.Operator, err)
		}
	}
	if _, _, err := newProgramRun("cheetah", nil); err != nil {
		t.Errorf("a simulator: %v", err)
	}
}

// advisedSets returns the --set words of an error's fix.
func advisedSets(text string) []string {
	_, advice, _ := strings.Cut(text, "(add ")
	advice, _, _ = strings.Cut(advice, ")")
	return setsOf(strings.Fields(advice))
}

func setsOf(args []string) (set []string) {
	for i, arg := range args {
		if arg == "--set" {
			set = append(set, args[i+1])
		}
	}
	return set
}

// A service holds the configuration's socket, and a simulated rover replaces its robot.
func TestJitter_MeasuresAServicesConfiguration(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the program")
	}
	t.Setenv(actAsProgram, "1")
	_, _, refusal := newProgramRun("rover-mcu", nil)
	dir, err := os.MkdirTemp("", "jitter") // short: a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	service, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = service.Close() })
	set := append(advisedSets(refusal.Error()), "loop.posture=warn",
		"operator.source=web", "operator.label_mode=per_request", "operator.web.tls=self_signed", "operator.web.hosts=[robot.local]",
		"safety.socket="+socket, "safety.limits=[{channel: tilt, min: -1, max: 1}]", "run.host_user=nobody", "log.min_free_gb=1e6")
	r, err := measureJitter(t.Context(), jitterOptions{config: "rover-mcu", set: set, seconds: 3, slice: 3, alone: true})
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Program; p.Cycles == 0 || p.Plans == 0 || p.Labels == 0 {
		t.Errorf("%+v: want ticks, plans and labels", p)
	}
}

func TestJitter_ReportsTheProgramsOutput(t *testing.T) {
	t.Setenv(actAsProgram, "1")
	o := jitterOptions{config: "rover", set: []string{"model.bundle=/nowhere"}, seconds: 0.1, slice: 0.1, alone: true}
	if _, err := measureJitter(t.Context(), o); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("error %v, want the program's output", err)
	}
	if _, err := measureJitter(t.Context(), jitterOptions{periodMS: 1, seconds: 1, slice: 1, set: []string{"a=b"}}); err == nil || !strings.Contains(err.Error(), "--config") {
		t.Errorf("error %v, want one about --set without --config", err)
	}
}
