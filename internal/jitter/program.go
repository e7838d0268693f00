package jitter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"optibfm/configs"
	"optibfm/flightlog"
	"optibfm/internal/setup"
	"optibfm/rewardsrc/scripted"
	"optibfm/rtloop"
)

// longest is the largest lateness of the histogram, ns.
const longest = int64(time.Hour)

// ProgramRun is the sum of several runs of the whole program.
type ProgramRun struct {
	Cycles  int64         `json:"cycles"` // wake-ups
	P50     time.Duration `json:"p50_ns"` // lateness of the wake-ups, to 3 digits
	P99     time.Duration `json:"p99_ns"`
	P999    time.Duration `json:"p99_9_ns"`
	Max     time.Duration `json:"max_ns"`
	Missed  int64         `json:"missed"`  // skipped ticks
	Labels  uint64        `json:"labels"`  // applied to the belief
	Plans   uint64        `json:"plans"`   // of the planner
	Dropped uint64        `json:"dropped"` // records missing in the log

	config   string
	set      []string
	lateness *hdrhistogram.Histogram // ns
}

// newProgramRun prepares runs of a configuration. It also returns the section loop, which applies
// to the bare loop.
func newProgramRun(config string, set []string) (*ProgramRun, rtloop.Config, error) {
	file, err := configs.Load(config, set...)
	if err != nil {
		return nil, rtloop.Config{}, err
	}
	if !setup.Simulated(file.Robot) {
		return nil, rtloop.Config{}, fmt.Errorf(actuatorsRefused, file.Robot.Driver, file.Loop.PeriodMS)
	}
	// measurementSets clears run.state_dir, on which the folder may depend.
	if file.Run.StartTask != "" || len(file.Controller.Explore.Tasks) > 0 {
		store, err := setup.TaskStore(file.Run)
		if err != nil {
			return nil, rtloop.Config{}, err
		}
		set = append(slices.Clone(set), "run.task_dir="+store.Dir)
	}
	lateness := hdrhistogram.New(1, longest, 3)
	return &ProgramRun{config: config, set: set, lateness: lateness}, file.Loop, nil
}

// actuatorsRefused is the error for a robot that may have actuators. It does not advise run.shadow:
// even then a driver writes to the outputs when it opens and halts the robot.
const actuatorsRefused = "jitter: robot.driver: opening and halting this robot writes to its outputs (%s); " +
	"measure the same loop with the simulated rover " +
	"(add --set robot.driver=rover --set robot.rover.period_ms=%[2]v --set model.bundle=embedded:rover), " +
	"or the bare loop (--period-ms %[2]v without --config)"

// measurementSets are the configuration keys that a measurement overrides.
var measurementSets = []string{
	"run.state_dir=", "run.lockstep=false", "run.episodes=0",
	"run.host_user=",                                         // another user cannot write to the log's folder
	"log.enabled=true", "log.keep_gb=0", "log.min_free_gb=0", // the log is temporary
	"safety.socket=", "safety.arm=automatic", "safety.after_stop=end", // a service may hold the socket
	"controller.replan_every_ticks=1",
	// A stop would end the measurement.
	"safety.limits=[]", "safety.frozen_channels=[]", "safety.frozen_ticks=0",
	"loop.max_missed_ticks=" + strconv.Itoa(rtloop.NoLimit), "loop.watchdog_ms=0",
	"controller.max_plan_age_ticks=1000000",
	"operator.source=" + configs.SourceScripted, "operator.label_mode=" + configs.ModeAny,
	"operator.scripted.mode=" + string(scripted.EveryTick), "operator.web.watch_only=false",
}

// turn runs the program once and adds the lateness from its log.
func (p *ProgramRun) turn(ctx context.Context, turn time.Duration) error {
	dir, err := os.MkdirTemp("", "optibfm-jitter")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(ctx, "/proc/self/exe", p.arguments(dir, turn)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("jitter: optibfm run: %w; its output:\n%s", err, output)
	}
	return p.addLogs(dir)
}

func (p *ProgramRun) arguments(dir string, turn time.Duration) []string {
	args := []string{"run", "--plain", "--fresh", "--config", p.config}
	here := []string{"log.dir=" + dir, "run.duration_s=" + strconv.FormatFloat(turn.Seconds(), 'g', -1, 64)}
	for _, s := range slices.Concat(p.set, measurementSets, here) {
		args = append(args, "--set", s)
	}
	return args
}

func (p *ProgramRun) addLogs(dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.mcap"))
	paths = slices.DeleteFunc(paths, flightlog.HoldsPictures)
	if err != nil || len(paths) == 0 {
		return errors.Join(err, fmt.Errorf("jitter: optibfm run: no log (in %s)", dir))
	}
	for _, path := range paths {
		if err := p.addLog(path); err != nil {
			return fmt.Errorf("jitter: %w", err)
		}
	}
	at := func(q float64) time.Duration { return time.Duration(p.lateness.ValueAtQuantile(q)) }
	p.Cycles, p.Max = p.lateness.TotalCount(), time.Duration(p.lateness.Max())
	p.P50, p.P99, p.P999 = at(50), at(99), at(99.9)
	return nil
}

func (p *ProgramRun) addLog(path string) error {
	log, err := flightlog.Open(path)
	if err != nil {
		return err
	}
	defer log.Close()
	last, first := uint64(0), true
	for r, err := range log.Records() {
		if err != nil {
			return err
		}
		if r.Plan != nil {
			p.Plans++
		}
		t := r.Tick
		if t == nil {
			continue
		}
		_ = p.lateness.RecordValue(min(max(t.Wake-t.Deadline, 0), longest)) // min and max keep it in range
		if !first {
			p.Missed += int64(t.Elapsed) - 1
			p.Dropped += t.Index - last - t.Elapsed
		}
		last, first = t.Index, false
		p.Labels += t.NumLabels
	}
	return nil
}
