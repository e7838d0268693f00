package cli

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/jitter"
	"optibfm/internal/rigtest"
)

func TestJitter_MeasuresWholeProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the program")
	}
	t.Setenv(actAsProgram, "1")
	o := jitter.Options{Config: "rover", Set: []string{"loop.posture=warn"}, Seconds: 2, Slice: 2}
	r, err := jitter.Measure(t.Context(), o)
	fatal.If(t, err)
	p := r.Program
	if p.Cycles == 0 || p.Plans == 0 || p.Labels == 0 || p.Dropped != 0 {
		t.Errorf("%+v: want ticks, plans and labels, and nothing dropped", p)
	}
	// The start and the end may each cost one of the 40 periods.
	if periods := p.Cycles + p.Missed; periods < 38 || periods > 41 {
		t.Errorf("%d ticks and %d missed in 40 periods of 50 ms", p.Cycles, p.Missed)
	}
	if r.PeriodMS != 50 || r.Loop.Period != 50*time.Millisecond {
		t.Errorf("the loop ran at %v ms, want the configuration's 50", r.PeriodMS)
	}
	var out bytes.Buffer
	if err := r.Print(&out, false); err != nil || !strings.Contains(out.String(), "and dropped 0 records") {
		t.Errorf("error %v, %s", err, &out)
	}
}

// A service holds the configuration's socket, and a simulated rover replaces its robot.
func TestJitter_MeasuresConfigurationOfService(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the program")
	}
	t.Setenv(actAsProgram, "1")
	o := jitter.Options{Config: "rover-mcu", Seconds: 1, Slice: 1}
	_, refusal := jitter.Measure(t.Context(), o)
	if refusal == nil {
		t.Fatal("a robot with actuators is measured")
	}
	dir, err := os.MkdirTemp("", "jitter") // short: a socket's path
	fatal.If(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	service, err := net.Listen("unix", socket)
	fatal.If(t, err)
	t.Cleanup(func() { _ = service.Close() })
	o.Set = append(rigtest.AdvisedSetValues(refusal.Error()), "loop.posture=warn", "log.min_free_gb=1e6",
		"operator.source=web", "operator.label_mode=per_request", "operator.web.tls=self_signed",
		"operator.web.hosts=[robot.local]", "run.host_user=nobody",
		"safety.socket="+socket, "safety.limits=[{channel: tilt, min: -1, max: 1}]")
	r, err := jitter.Measure(t.Context(), o)
	fatal.If(t, err)
	if p := r.Program; p.Cycles == 0 || p.Plans == 0 || p.Labels == 0 {
		t.Errorf("%+v: want ticks, plans and labels", p)
	}
}

func TestJitter_ReportsOutputOfProgram(t *testing.T) {
	t.Setenv(actAsProgram, "1")
	o := jitter.Options{Config: "rover", Set: []string{"model.bundle=/nowhere"}, Seconds: 0.1, Slice: 0.1}
	errtest.Contains(t, errtest.Of(jitter.Measure(t.Context(), o)), "/nowhere")
}
