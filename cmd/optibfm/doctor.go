package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/rtloop"
)

// doctorFlags are the flags of doctor.
type doctorFlags struct {
	config  string
	set     []string
	json    bool
	seconds float64
}

func newDoctorCommand() *cobra.Command {
	f := doctorFlags{seconds: 10}
	cmd := &cobra.Command{
		Use: "doctor", Args: cobra.NoArgs,
		Short: "Check on the spot whether this computer and user can run a robot",
		Long: `Look at everything that a run needs, as the user that will run it, and say of
each thing whether it is in order (ok, warn, fail) and how to mend it. Nothing
fails: exit status 0; something does: 1.

Nothing is moved and nothing is armed. Devices are looked at without being
opened, but for these: one register of each I2C device is read, GPIO chips are
asked about their lines, the project's Python bridges are run with --help, and the
console's port is listened on for a moment. The log's folder gets a hidden folder,
which is removed. Best while no run goes on.

The warnings with a star are failures where loop.posture is strict. Without a
configuration, what needs none is checked, for the default loop.

The wake-ups are measured for --seconds with the loop's posture, in turns with
cyclictest (Debian: rt-tests), which gets as long again.`,
		Example: `  sudo -u optibfm optibfm doctor --config /etc/optibfm/robot.yaml
  optibfm doctor --seconds 60
  optibfm doctor --config rover --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return runDoctor(ctx, f, thisMachine(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.config, "config", "c", "", "a `CONFIG`: a file, or a name (optibfm config list)")
	fl.StringArrayVar(&f.set, "set", nil, "override a key of the configuration: `KEY=VALUE`; repeatable")
	fl.BoolVar(&f.json, "json", false, "print JSON")
	fl.Float64Var(&f.seconds, "seconds", f.seconds, "time to measure wake-ups, 0 to 3600; 0: not")
	return cmd
}

// doctor examines a machine for a configuration.
type doctor struct {
	machine
	file       configs.File // the default where there is none
	configured bool
	configErr  error
	name       string // of the configuration
	seconds    float64
	measure    func(context.Context, jitterOptions) (jitterResult, error)

	// What one check finds out for others. A check that hung may still be
	// writing when they read.
	posture atomic.Pointer[obtained]
	opened  atomic.Pointer[networks]
}

func newDoctor(f doctorFlags, m machine) (*doctor, error) {
	if !(f.seconds >= 0 && f.seconds <= 3600) {
		return nil, fmt.Errorf("doctor: --seconds is %v: give 0 to 3600", f.seconds)
	}
	d := &doctor{machine: m, file: configs.Default(), name: f.config, seconds: f.seconds, measure: measureJitter}
	d.file.Loop = rtloop.DefaultConfig()
	if f.config == "" {
		if len(f.set) > 0 {
			return nil, errors.New("doctor: --set has nothing to override: give --config too")
		}
		return d, nil
	}
	file, err := configs.Load(f.config, f.set...)
	if err != nil {
		d.configErr = err
		return d, nil
	}
	d.file, d.configured = file, true
	return d, nil
}

// unasked is a check for which a configuration is missing.
func (d *doctor) unasked(id, section string) check {
	return single(id, func() finding {
		if d.configErr != nil {
			return skipped("see config.file")
		}
		return skipped("no --config, whose %s would say what to look at", section)
	})
}

// checks are all checks, in their order. Those that load the computer come after
// the wake-ups are measured.
func (d *doctor) checks() (list []check) {
	list = append(list, single("config.file", d.configuration), single("system.user", d.serviceUser))
	list = append(list, check{id: "rt.posture", run: d.prepare})
	list = append(list, d.realTimeChecks()...)
	list = append(list, d.wakeUps())
	list = append(list, d.processorChecks()...)
	list = append(list, single("memory.size", d.memorySize))
	list = append(list, d.clockChecks()...)
	list = append(list, d.diskChecks()...)
	list = append(list, d.deviceChecks()...)
	list = append(list, d.operatorChecks()...)
	return append(list, d.modelChecks()...)
}

func (d *doctor) configuration() finding {
	switch {
	case d.configErr != nil:
		return broken("`optibfm config validate` shows the places", "%v", d.configErr)
	case !d.configured:
		return skipped("none given")
	}
	return fine("%s: robot %s, posture %s, %v ms", d.name, d.file.Robot.Driver, d.file.Loop.Posture, d.file.Loop.PeriodMS)
}

// serviceUser says whose rights are looked at.
func (d *doctor) serviceUser() finding {
	who := fmt.Sprintf("%s (uid %d)", d.user.Name, d.user.UID)
	if len(d.user.Groups) > 0 {
		who += fmt.Sprintf(", groups %s", joined(d.user.Groups))
	}
	host := d.file.Run.HostUser
	switch {
	case d.user.UID == 0:
		return doubtful("run the doctor as the service's user: `sudo -u optibfm optibfm doctor ...`", "%s, who may do everything: this says nothing about the rights of others", who)
	case host != "" && host != d.user.Name:
		return doubtful(fmt.Sprintf("run the doctor as %s too, for log, reward device and TensorFlow", host), "%s; run.host_user is %s", who, host)
	}
	return fine("%s", who)
}

// runDoctor examines, prints as it goes, and fails where something does.
func runDoctor(ctx context.Context, f doctorFlags, m machine, out, progress io.Writer) error {
	d, err := newDoctor(f, m)
	if err != nil {
		return err
	}
	r := d.newReport()
	printer := newDoctorPrinter(out, progress, f.json)
	printer.begin(r)
	for _, c := range d.checks() {
		if ctx.Err() != nil {
			return errors.New("doctor: interrupted")
		}
		if c.id == "rt.latency" && d.seconds > 0 {
			printer.waiting(fmt.Sprintf("measuring wake-ups for up to %.0f s ...", 2*d.seconds))
		}
		found := c.perform(ctx, d.file.Loop.Posture)
		r.add(found)
		printer.findings(found)
	}
	if err := printer.end(r); err != nil {
		return err
	}
	if r.Failed > 0 {
		return fmt.Errorf("doctor: %d of %d checks fail: mend them as said above", r.Failed, r.OK+r.Warned+r.Failed)
	}
	return nil
}
