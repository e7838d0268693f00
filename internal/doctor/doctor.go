package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"optibfm/configs"
	"optibfm/internal/jitter"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

// DoctorFlags are the flags of doctor.
type DoctorFlags struct {
	Config  string
	Set     []string
	JSON    bool
	Seconds float64
}

// doctor examines a machine for a configuration.
type doctor struct {
	machine
	file       configs.File // the default where there is none
	configured bool
	configErr  error
	name       string // of the configuration
	seconds    float64
	measure    func(context.Context, jitter.Options) (jitter.Result, error)

	// What one check finds out for others. A check that hung may still be
	// writing when they read.
	posture atomic.Pointer[obtained]
	opened  atomic.Pointer[setup.Model]
}

func newDoctor(f DoctorFlags, m machine) (*doctor, error) {
	if !(f.Seconds >= 0 && f.Seconds <= 3600) {
		return nil, fmt.Errorf("doctor: --seconds is %v: give 0 to 3600", f.Seconds)
	}
	d := &doctor{machine: m, file: configs.Default(), name: f.Config, seconds: f.Seconds, measure: jitter.Measure}
	d.file.Loop = rtloop.DefaultConfig()
	if f.Config == "" {
		if len(f.Set) > 0 {
			return nil, errors.New("doctor: --set has nothing to override: give --config too")
		}
		return d, nil
	}
	file, err := configs.Load(f.Config, f.Set...)
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

// RunDoctor examines, prints as it goes, and fails where something does.
func RunDoctor(ctx context.Context, f DoctorFlags, m machine, out, progress io.Writer) error {
	d, err := newDoctor(f, m)
	if err != nil {
		return err
	}
	r := d.newReport()
	printer := newDoctorPrinter(out, progress, f.JSON)
	printer.Begin(r)
	for _, c := range d.checks() {
		if ctx.Err() != nil {
			return errors.New("doctor: interrupted")
		}
		if c.id == "rt.latency" && d.seconds > 0 {
			printer.waiting(fmt.Sprintf("measuring wake-ups for up to %.0f s ...", 2*d.seconds))
		}
		found := c.perform(ctx, d.file.Loop.Posture)
		r.Add(found)
		printer.findings(found)
	}
	if err := printer.End(r); err != nil {
		return err
	}
	if r.Failed > 0 {
		return fmt.Errorf("doctor: %d of %d checks fail: mend them as said above", r.Failed, r.OK+r.Warned+r.Failed)
	}
	return nil
}
