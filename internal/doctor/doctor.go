package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"optibfm/configs"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

// Options are the flags of `optibfm doctor`.
type Options struct {
	Config  string   // a file or the name of a ready configuration; "": check what needs none
	Set     []string // overrides of configuration keys, KEY=VALUE
	LAN     bool     // the console is open to the network (`optibfm run --lan`)
	JSON    bool
	Seconds float64 // duration of the latency measurement, 0 to 3600; 0: no measurement
}

// doctor checks a machine for a configuration.
type doctor struct {
	machine
	file       configs.File // default values without a configuration
	configured bool
	configErr  error
	name       string // of the configuration
	set        []string
	seconds    float64

	// opened is the model that model.bundle opened. It is atomic because a check that exceeded its
	// limit may still be running.
	opened atomic.Pointer[setup.Model]
}

func newDoctor(o Options, m machine) (*doctor, error) {
	if !(o.Seconds >= 0 && o.Seconds <= 3600) {
		return nil, fmt.Errorf("doctor: --seconds: out of range (%v); use 0 to 3600", o.Seconds)
	}
	d := &doctor{machine: m, file: configs.Default(), name: o.Config, set: o.Set, seconds: o.Seconds}
	d.file.Loop = rtloop.DefaultConfig()
	if o.Config == "" {
		if len(o.Set) > 0 {
			return nil, errors.New("doctor: --set without a configuration; add --config")
		}
		return d, nil
	}
	file, err := configs.Load(o.Config, o.Set...)
	if err != nil {
		d.configErr = err
		return d, nil
	}
	if o.LAN {
		file.Operator.Web = file.Operator.Web.OnNetwork()
	}
	d.file, d.configured = file, true
	return d, nil
}

// checks returns all checks in their order. The latency measurement precedes the checks that load
// the computer.
func (d *doctor) checks() []check {
	list := []check{
		single("config.file", d.checkConfig), single("config.guards", d.checkGuards),
		single("system.user", d.checkUser), single("system.host", d.checkHost),
	}
	host := d.file.Run.HostUser
	ofHost := host != "" && d.user.Name == host
	ofControl := host != "" && d.user.Name != host && d.user.UID != 0
	if ofHost {
		list = append(list, others("of the control process: run the doctor as its user", "rt.posture", "rt.latency")...)
	} else {
		list = append(list, check{id: "rt.posture", limit: checkLimit, run: d.checkPosture},
			check{id: "rt.kernel", limit: checkLimit, run: d.checkKernel}, d.latencyCheck())
	}
	list = append(list, single("clock.source", d.checkClockSource), single("clock.wall", d.checkWallClock))
	if !d.configured {
		return append(list, others("needs a valid configuration (--config)", "device", "operator", "model", "disk")...)
	}
	if ofHost {
		list = append(list, others("of the control process: run the doctor as its user", "device")...)
	} else {
		list = append(list, d.deviceChecks()...)
	}
	if ofControl {
		list = append(list, others("of the host process: run the doctor as "+host, "operator")...)
		list = append(list, d.modelChecks()...)
		return append(list, others("of the host process: run the doctor as "+host, "disk")...)
	}
	list = append(list, d.operatorChecks()...)
	list = append(list, d.modelChecks()...)
	return append(list, d.diskChecks()...)
}

// others returns checks that are not for this user or configuration.
func others(why string, ids ...string) (list []check) {
	for _, id := range ids {
		list = append(list, single(id, func() finding { return skip("%s", why) }))
	}
	return list
}

// checkHost reports a host process with the rights of the control process.
func (d *doctor) checkHost() finding {
	host := d.file.Run.HostUser
	switch {
	case !d.configured || d.file.Run.Lockstep:
		return skip("no host process")
	case host != "" && host == d.user.Name:
		return pass("%s: the checks of the host process", host)
	case !setup.SharesUser(host, d.user.Name):
		return pass("the host process runs as %s", host)
	case setup.Simulated(d.file.Robot) || d.file.Run.Shadow:
		return pass("the host process has the user of the control process, which moves no robot")
	}
	return warnStrict("use the service of the package, or run as root with run.host_user",
		"run.host_user is %q: a compromised host process can open the robot's devices", host)
}

func (d *doctor) checkConfig() finding {
	switch {
	case d.configErr != nil:
		return fail("run `optibfm config validate`", "%v", d.configErr)
	case !d.configured:
		return skip("no configuration (--config)")
	}
	loop := d.file.Loop
	return pass("%s: robot %s, posture %s, period %v ms", d.name, d.file.Robot.Driver, loop.Posture, loop.PeriodMS)
}

// checkGuards checks who arms the robot, and what stops it when this computer dies.
func (d *doctor) checkGuards() finding {
	if !d.configured {
		return skip("no configuration (--config)")
	}
	wrong, known := setup.MissingGuards(d.file)
	switch {
	case !known:
		return skip("nothing moves, or only the run knows whether (a bridge)")
	case wrong != nil:
		return warnStrict("correct the named key", "%v", errors.Join(wrong...))
	}
	return pass("a person arms the robot, and no device is known to lack a deadman")
}

// checkUser compares the user with the one that a service uses: rights apply to this user only.
func (d *doctor) checkUser() finding {
	who := fmt.Sprintf("%s (uid %d)", d.user.Name, d.user.UID)
	if len(d.user.Groups) > 0 {
		who += ", groups " + strings.Join(d.user.Groups, ", ")
	}
	host := d.file.Run.HostUser
	switch {
	case d.user.UID == 0:
		return warn("run the doctor as the service's user: `sudo -u optibfm optibfm doctor ...`",
			"%s: root has all rights; the rights of other users are not checked", who)
	case host != "" && host != d.user.Name:
		return warn(fmt.Sprintf("run the doctor as %s too, for log, reward device and TensorFlow", host),
			"%s; run.host_user is %s", who, host)
	}
	return pass("%s", who)
}

// Run performs all checks on this computer and prints their findings to out: as text at once, or as
// one JSON object at the end. progress gets messages about long measurements. The error reports
// failed checks, invalid options or an interrupt.
func Run(ctx context.Context, o Options, out, progress io.Writer) error {
	return run(ctx, o, thisMachine(), out, progress)
}

func run(ctx context.Context, o Options, m machine, out, progress io.Writer) error {
	d, err := newDoctor(o, m)
	if err != nil {
		return err
	}
	r := d.newReport()
	p := &printer{out: out, progress: progress, json: o.JSON}
	p.begin(r)
	for _, c := range d.checks() {
		if ctx.Err() != nil {
			return errors.New("doctor: interrupted")
		}
		p.announce(c)
		found := c.perform(ctx, d.file.Loop.Posture)
		r.add(found)
		p.print(found)
	}
	if err := p.end(r); err != nil {
		return err
	}
	if r.Failed > 0 {
		return fmt.Errorf("doctor: %d of %d findings failed; apply the fixes above", r.Failed, r.OK+r.Warned+r.Failed)
	}
	return nil
}
