package main

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

	"optibfm/configs"
	"optibfm/flightlog"
	"optibfm/hal/bridge"
	"optibfm/rtloop"
)

// programRun is the sum of several runs of the whole program.
type programRun struct {
	wakeUpCounts
	Browsers int    `json:"browsers"` // that had the console open
	Labels   uint64 `json:"labels"`   // from the console, in the belief
	Plans    uint64 `json:"plans"`    // of the planner
	Dropped  uint64 `json:"dropped"`  // records that the log lacks

	config  string
	set     []string
	skipped int64
}

// newProgramRun prepares runs of a configuration, and returns the loop's part
// of it: all contenders keep to that.
func newProgramRun(config string, set []string, browsers int) (*programRun, rtloop.Config, error) {
	file, err := configs.Load(config, set...)
	if err != nil {
		return nil, rtloop.Config{}, err
	}
	if !simulated(file.Robot) {
		return nil, rtloop.Config{}, fmt.Errorf(machineRefused, file.Robot.Driver, file.Loop.PeriodMS)
	}
	return &programRun{wakeUpCounts: newWakeUpCounts(), Browsers: browsers, config: config, set: set}, file.Loop, nil
}

// machineRefused is why a configuration is not measured: a measurement moves no
// machine, and not even a shadow keeps from the outputs what a robot writes to
// them where it is opened and where it is halted.
const machineRefused = "jitter: robot.driver is %s, and a run writes to that robot's outputs, also with run.shadow, when it opens and when it halts it: " +
	"measure the same loop with the simulated rover (add --set robot.driver=rover --set robot.rover.period_ms=%[2]v --set model.bundle=embedded:rover), " +
	"or the bare loop (--period-ms %[2]v without --config)"

// simulated reports whether a robot has no actuators: the built-in one, and those
// whose time waits for the program.
func simulated(r configs.Robot) bool {
	return r.Driver == configs.DriverRover || r.Driver == configs.DriverBridge && r.Bridge.Mode != bridge.Free
}

// forMeasurement is what a measurement changes in a configuration.
var forMeasurement = []string{
	"run.state_dir=", "run.lockstep=false", "run.episodes=0",
	"run.host_user=",                                         // whose is not the folder of the log
	"log.enabled=true", "log.keep_gb=0", "log.min_free_gb=0", // the folder is another, and soon gone
	"safety.socket=", "safety.arm=automatic", "safety.after_stop=end", // the socket may be a service's
	"safety.limits=[]", "safety.frozen_channels=[]", "safety.frozen_ticks=0", // a stop would end the measurement
	"controller.replan_every_ticks=1", "loop.max_missed_ticks=" + strconv.Itoa(rtloop.NoLimit),
	"operator.source=" + configs.SourceWeb, "operator.label_mode=" + configs.ModeAny, // no press is refused
	"operator.web.watch_only=false", "operator.web.listen=127.0.0.1:0", "operator.web.max_late_s=60",
	"operator.web.hosts=[]", "operator.web.tls=off", "operator.web.cert_file=", "operator.web.key_file=",
}

// turn runs the program with its log, a planner that never rests and a console
// that devices watch, and reads from the log how late the loop woke.
func (p *programRun) turn(ctx context.Context, cfg rtloop.Config, turn time.Duration) error {
	dir, err := os.MkdirTemp("", "optibfm-jitter")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	said := newPairingReader()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", p.arguments(dir, turn)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("jitter: starting the program: %w", err)
	}
	watching := make(chan error, 1)
	go func() { watching <- watchConsole(ctx, said, p.Browsers) }()
	ended := cmd.Wait()
	stop()
	if err := <-watching; err != nil {
		return fmt.Errorf("jitter: the console: %w; the program said:\n%s", err, said)
	}
	if ended != nil {
		return fmt.Errorf("jitter: optibfm run: %w; it said:\n%s", ended, said)
	}
	return p.addLogs(dir, cfg.Period())
}

func (p *programRun) arguments(dir string, turn time.Duration) []string {
	args := []string{"run", "--plain", "--fresh", "--config", p.config}
	here := []string{"log.dir=" + dir, "run.duration_s=" + strconv.FormatFloat(turn.Seconds(), 'g', -1, 64)}
	for _, s := range slices.Concat(p.set, forMeasurement, here) {
		args = append(args, "--set", s)
	}
	return args
}

// addLogs includes what the logs of a folder say.
func (p *programRun) addLogs(dir string, period time.Duration) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.mcap"))
	if err != nil || len(paths) == 0 {
		return errors.Join(err, fmt.Errorf("jitter: the program left no log in %s", dir))
	}
	for _, path := range paths {
		if err := p.addLog(path); err != nil {
			return fmt.Errorf("jitter: %w", err)
		}
	}
	p.sumUp(period)
	p.Missed = p.skipped
	return nil
}

func (p *programRun) addLog(path string) error {
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
		late := time.Duration(max(t.Wake-t.Deadline, 0))
		p.counts[int(late/time.Microsecond)]++
		if !first {
			p.skipped += int64(t.Elapsed) - 1
			p.Dropped += t.Index - last - t.Elapsed
		}
		last, first = t.Index, false
		p.Labels += t.NumLabels
	}
	return nil
}
