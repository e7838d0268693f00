package unitree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/hal"
	"optibfm/hal/monotonic"
	"optibfm/hal/unitree/body"
	"optibfm/internal/ipc/shm"
)

// The times in which a writer answers. Tests change them.
var (
	armTimeout  = 150 * time.Millisecond
	haltTimeout = 30 * time.Millisecond
)

const askEvery = 500 * time.Microsecond // while Arm and Halt wait

// Robot is a Go2 or a G1. One goroutine, the control thread, uses it. Sense, Act and Halt make no
// system call except to read the clock and, in Halt, to sleep.
type Robot struct {
	spec    hal.Spec
	config  Config
	mapping mapping
	shared  *Shared
	goals   *shm.MailboxWriter
	reports *shm.MailboxReader
	writers io.Closer // the processes; nil in tests
	release func()    // of the mark; nil in tests
	now     func() int64
	// beatLimit is the silence of both writers, ns: longer than that of one, which the other
	// notices.
	beatLimit int64

	report   Report // newest
	known    bool
	halted   bool
	began    bool // an arming was not refused, or had no answer: Halt needs the answer of a writer
	takes    bool // Halt damps a robot that another process may have armed
	epoch    uint64
	remote   *remote
	faults   *faults
	alarms   *alarms
	position []float32 // of the actions, rad

	estimates *body.Estimates // nil: none
}

var (
	_ hal.Robot        = (*Robot)(nil)
	_ hal.StopInput    = (*Robot)(nil)
	_ hal.DeadmanTimer = (*Robot)(nil)
	_ hal.Bounder      = (*Robot)(nil)
	_ hal.Backstop     = (*Robot)(nil)
	_ hal.ArmInput     = (*Robot)(nil)
	_ hal.Warner       = (*Robot)(nil)
	_ hal.LabelInput   = (*Robot)(nil)
	_ io.Closer        = (*Robot)(nil)
)

// The errors of Act and Arm besides those of the writers.
var (
	errPrimary  error = &kindError{"unitree: the writer died or hung; restart optibfm", hal.ErrDevice}
	errNotArmed error = &kindError{"unitree: the writer does not follow; arm again", hal.ErrDevice}
	errNoAnswer error = &kindError{"unitree: the writer did not begin to command the motors; arm again", hal.ErrTimeout}
	errHalt     error = &kindError{"unitree: halt: no writer damps the motors; cut their power", hal.ErrTimeout}
)

// Open starts the writers and waits for the first state of the robot. The robot is halted: nothing
// is written to it.
func Open(ctx context.Context, config Config, period time.Duration) (*Robot, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	shared, err := CreateShared()
	if err != nil {
		return nil, fmt.Errorf("unitree: %w", err)
	}
	r, err := Attach(config, period, shared, monotonic.Now)
	if err != nil {
		return nil, errors.Join(err, shared.Close())
	}
	r.release = shared.Hold(RoleControl)
	writers, err := startWriters(ctx, config, shared, period)
	if err != nil {
		return nil, errors.Join(err, r.unmap())
	}
	r.writers = writers
	if err := r.awaitState(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Attach returns the robot of a segment whose writers the caller runs. now is the clock,
// CLOCK_MONOTONIC ns.
func Attach(config Config, period time.Duration, shared *Shared, now func() int64) (*Robot, error) {
	spec, err := config.Spec(period)
	if err != nil {
		return nil, err
	}
	r := &Robot{
		spec: spec, config: config, mapping: config.mapping(), shared: shared, now: now, halted: true,
		position: make([]float32, len(spec.Action)), beatLimit: int64(100*time.Millisecond + ms(config.StandbyMS)),
		estimates: config.estimates(),
	}
	var err1, err2, err3 error
	r.goals, err1 = shared.segment.MailboxWriter("goals")
	r.reports, err2 = shared.segment.MailboxReader("reports")
	r.remote, err3 = newRemote(config.Remote)
	r.faults = newFaults(r.mapping.joints)
	r.alarms = newAlarms(config)
	return r, errors.Join(err1, err2, err3)
}

const (
	// firstState limits the time until a robot is discovered on its network.
	firstState = 5 * time.Second
	// standbyLater limits the time until the standby writer has discovered it too. Then arming is
	// refused.
	standbyLater = time.Second
)

// awaitState waits for the first good state, and a while for the standby writer.
func (r *Robot) awaitState(ctx context.Context) error {
	deadline, found := r.now()+int64(firstState), false
	for {
		r.update()
		if !found && r.known && r.report.StateAt != 0 {
			found, deadline = true, r.now()+int64(standbyLater)
		}
		over := r.now() > deadline
		switch {
		case found && (over || r.shared.StandbyReady.Load() != 0):
			return nil
		case over:
			return r.noState()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("unitree: waiting for the robot's state: %w", context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// update takes the newest report.
func (r *Robot) update() {
	b, fresh := r.reports.Read()
	if b == nil || !fresh {
		return
	}
	r.report, r.known = *r.shared.reports.At(b), true
}

// Spec describes the channels.
func (r *Robot) Spec() hal.Spec { return r.spec }

// noState returns the reason why the robot has no good state.
func (r *Robot) noState() error {
	switch fault := Fault(r.report.Fault); {
	case !r.known:
		return errPrimary
	case fault == FaultChecksum || fault == FaultFrozen || fault == FaultValues || fault == FaultModeMachine:
		return r.faults.errorOf(fault, r.report.FaultDetail)
	}
	return faultErrors[FaultNoState]
}

// Sense fills obs with the newest good state. It fails if that is older than stale_ms.
func (r *Robot) Sense(obs []float32) (at int64, err error) {
	if len(obs) != len(r.spec.Obs) {
		return 0, fmt.Errorf("unitree: sense: obs has the wrong length (%d, want %d)", len(obs), len(r.spec.Obs))
	}
	r.update()
	if err := r.reports.Err(); err != nil {
		return 0, err
	}
	now := r.now()
	if !r.known || r.report.StateAt == 0 || r.report.StateAt > now || now-r.report.StateAt > int64(ms(r.config.StaleMS)) {
		r.remote.lost()
		return 0, r.noState()
	}
	s := &r.report
	r.remote.update(&s.Remote, s.StateAt)
	r.alarms.update(s, len(r.position))
	r.fill(obs, s)
	return s.StateAt, nil
}

func (r *Robot) fill(obs []float32, s *Report) {
	n := len(r.mapping.joints)
	for i := range n {
		obs[i] = float32(float64(s.Position[i]) - r.mapping.origin[i])
		obs[n+i] = s.Velocity[i]
	}
	rest := obs[2*n:]
	down := [3]float32{}
	down[0], down[1], down[2] = gravity(&s.Quaternion)
	copy(rest, down[:])
	copy(rest[3:6], s.Gyro[:])
	copy(rest[6:9], s.Accelerometer[:])
	rest = rest[9:]
	if r.config.Model == Go2 {
		rest = rest[copy(rest, s.Foot[:]):]
	}
	if r.estimates != nil {
		r.estimates.Fill(rest, &body.Measured{
			At: s.StateAt, Position: s.Position[:n], Velocity: s.Velocity[:n], Down: down, Gyro: s.Gyro,
			Accelerometer: s.Accelerometer, Foot: s.Foot,
		})
	}
}

// gravity returns the direction of gravity in the body with an orientation, w x y z. The writer
// accepts quaternions whose norm is only about 1.
func gravity(q *[4]float32) (x, y, z float32) {
	w, i, j, k := float64(q[0]), float64(q[1]), float64(q[2]), float64(q[3])
	ww, ii, jj, kk := float64(w*w), float64(i*i), float64(j*j), float64(k*k)
	norm := ww + ii + jj + kk // squared
	return float32(-2 * (float64(i*k) - float64(w*j)) / norm), float32(-2 * (float64(j*k) + float64(w*i)) / norm),
		float32((ii + jj - ww - kk) / norm)
}

// Act sends goals to the writer. It fails, so that the robot is stopped, after any fault of robot
// or writers.
func (r *Robot) Act(action []float32) error {
	if r.halted {
		return hal.ErrHalted
	}
	if err := r.spec.CheckAction(action); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	for i, a := range action {
		r.position[i] = r.mapping.goal(i, a)
	}
	r.send(CommandFollow)
	return r.goals.Err()
}

// check returns the fault of an armed robot or of its writers.
func (r *Robot) check() error {
	r.update()
	now := r.now()
	s := &r.report
	switch {
	case r.shared.Takeover.Load() != 0:
		return faultErrors[FaultTakeover]
	case now-s.At > r.beatLimit:
		return errPrimary
	case s.Epoch != r.epoch || s.Mode != ModeHolding && s.Mode != ModeFollowing:
		if err := r.faults.errorOf(s.Fault, s.FaultDetail); err != nil {
			return err
		}
		return errNotArmed
	}
	return r.alarms.stop
}

func (r *Robot) send(command Command) {
	g := r.shared.goals.At(r.goals.Buffer())
	*g = Goal{Epoch: r.epoch, At: r.now(), Command: command, Joints: uint32(len(r.position))}
	copy(g.Position[:], r.position)
	r.goals.Publish()
}

// Arm makes the writer hold the present pose. It fails if the robot or a writer has a fault. A
// writer that refuses writes nothing to a robot that was never armed: it may stand by another
// program.
func (r *Robot) Arm() error {
	if err := r.alarms.refuse; err != nil {
		return err
	}
	r.epoch++
	r.send(CommandHold)
	if err := r.await(armTimeout, func() bool { return r.report.Epoch == r.epoch }); err != nil {
		r.began = true // it may begin later
		err = errNoAnswer
		if r.shared.Takeover.Load() != 0 {
			err = faultErrors[FaultTakeover]
		}
		return errors.Join(err, r.Halt())
	}
	r.began = r.began || r.report.Mode != ModeIdle
	if r.report.Mode != ModeHolding {
		err := r.faults.errorOf(r.report.Fault, r.report.FaultDetail)
		if err == nil {
			err = errNotArmed
		}
		return errors.Join(err, r.Halt())
	}
	r.halted = false
	return nil
}

// await polls the reports until done or a timeout.
func (r *Robot) await(timeout time.Duration, done func() bool) error {
	for deadline := r.now() + int64(timeout); ; {
		if r.update(); done() {
			return nil
		}
		if r.now() > deadline {
			return hal.ErrTimeout
		}
		pause := unix.NsecToTimespec(int64(askEvery))
		_ = unix.Nanosleep(&pause, nil) // an early end is another look
	}
}

// Halt makes the writer damp the motors: kp 0, damping_kd. It writes nothing to a robot that was
// never armed, which may stand by its own controller.
func (r *Robot) Halt() error {
	r.halted = true
	if !r.began {
		return nil
	}
	command := CommandDamp
	if r.takes {
		command = CommandTake
	}
	r.send(command)
	if r.await(haltTimeout, r.damped) != nil {
		return errHalt
	}
	return nil
}

// Damp is Halt of a robot that another process may have armed: `optibfm halt`.
func (r *Robot) Damp() error {
	r.began, r.takes = true, true
	r.epoch = cmp.Or(r.epoch, 1)
	return r.Halt()
}

// damped reports whether a writer damps the motors, or never commanded them.
func (r *Robot) damped() bool {
	alive := r.now()-r.report.At < r.beatLimit
	damping := alive && r.report.Mode == ModeDamping
	if r.shared.Takeover.Load() != 0 { // the primary damps if the standby is silent
		return damping && r.report.Fault != FaultWrite || r.now()-int64(r.shared.StandbyBeat.Load()) < r.beatLimit
	}
	idle := alive && r.report.Mode == ModeIdle && !r.takes
	return (damping || idle) && r.report.Epoch == r.epoch
}

// HaltBeside implements hal.Backstop: the standby writer damps, and the other one never writes
// again.
func (r *Robot) HaltBeside() { r.shared.Takeover.Store(1) }

// StopPressed reports whether a combination of the remote control to stop is held, or a required
// remote is off.
func (r *Robot) StopPressed() bool { return r.remote.stopped() }

// ArmRequested implements hal.ArmInput with the remote control.
func (r *Robot) ArmRequested() bool { return r.remote.takeArm() }

// Presses implements hal.LabelInput with the buttons of the remote control.
func (r *Robot) Presses(dst []hal.Press) int { return r.remote.take(dst) }

// Deadman is the silence of this process after which the writer damps the motors, as the writer has
// it.
func (r *Robot) Deadman() time.Duration { return time.Duration(r.report.Deadman) }

// Bounds are those of the waits in Arm and Halt.
func (r *Robot) Bounds() hal.Bounds {
	return hal.Bounds{Arm: armTimeout + haltTimeout, Halt: haltTimeout}
}

// Warning implements hal.Warner: a low battery, a warm motor, a late standby writer.
func (r *Robot) Warning() error {
	if w := r.alarms.warn.Load(); w != nil {
		return *w
	}
	return nil
}

// Close ends the writers, which damp the motors before, if the robot was armed.
func (r *Robot) Close() error {
	r.send(CommandEnd)
	var err error
	if r.writers != nil {
		err = r.writers.Close()
	}
	return errors.Join(err, r.unmap())
}

func (r *Robot) unmap() error {
	if r.release != nil {
		r.release()
	}
	return r.shared.Close()
}

// alarms judges battery, temperatures and tilt. Its errors are allocated in advance.
type alarms struct {
	config             Config
	cosTilt            float64
	warn               atomic.Pointer[error] // of the newest state; another goroutine reads it
	refuse, stop       error                 // the same, for the control thread
	low, charge, empty error
	warm, hot, burning [MaxJoints]error
	fallen, late       error
}

func newAlarms(c Config) *alarms {
	a := &alarms{config: c, cosTilt: -2}
	if c.MaxTiltDeg > 0 {
		a.cosTilt = math.Cos(c.MaxTiltDeg * math.Pi / 180)
	}
	b := c.Battery
	a.low = fmt.Errorf("unitree: the battery is below %g %%", b.WarnPercent)
	a.charge = fmt.Errorf("unitree: the battery is below battery.refuse_percent (%g %%); charge it", b.RefusePercent)
	a.empty = fmt.Errorf("unitree: the battery is below battery.stop_percent (%g %%); charge it", b.StopPercent)
	a.late = fmt.Errorf("unitree: the standby writer was silent for standby_ms (%g ms): the computer is too busy",
		c.StandbyMS)
	a.fallen = fmt.Errorf("unitree: the robot has fallen: it tilts by more than max_tilt_deg (%g°)", c.MaxTiltDeg)
	t := c.Temperature
	for i, j := range Joints(c.Model) {
		a.warm[i] = fmt.Errorf("unitree: motor %s is above %g °C", j.Name, t.WarnC)
		a.hot[i] = fmt.Errorf("unitree: motor %s is above temperature.refuse_c (%g °C); let it cool", j.Name, t.RefuseC)
		a.burning[i] = fmt.Errorf("unitree: motor %s is above temperature.stop_c (%g °C); let it cool", j.Name, t.StopC)
	}
	return a
}

// raise keeps the first alarm of each kind.
func raise(kept *error, err error, found bool) {
	if found && *kept == nil {
		*kept = err
	}
}

func (a *alarms) update(s *Report, joints int) {
	var warn *error
	a.refuse, a.stop = nil, nil
	if _, _, z := gravity(&s.Quaternion); float64(-z) < a.cosTilt {
		a.refuse, a.stop = a.fallen, a.fallen
	}
	b, percent := a.config.Battery, float64(s.Battery)
	if s.Battery >= 0 {
		if percent < b.WarnPercent {
			warn = &a.low
		}
		raise(&a.refuse, a.charge, percent < b.RefusePercent)
		raise(&a.stop, a.empty, percent < b.StopPercent)
	}
	t := a.config.Temperature
	for i := range joints {
		c := float64(s.Temperature[i])
		if warn == nil && t.WarnC > 0 && c > t.WarnC {
			warn = &a.warm[i]
		}
		raise(&a.refuse, a.hot[i], t.RefuseC > 0 && c > t.RefuseC)
		raise(&a.stop, a.burning[i], t.StopC > 0 && c > t.StopC)
	}
	if s.StandbyLate != 0 { // it may pass quickly: it comes first
		warn = &a.late
	}
	a.warn.Store(warn)
}
