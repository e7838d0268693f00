package composite

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"optibfm/hal"
)

// Robot is a robot made of devices. It implements [hal.Robot], [hal.Backstop], [hal.DeadmanTimer],
// [hal.Disarmer], [hal.Limper], [hal.Meter], [hal.StopInput], [hal.ArmInput], [hal.LabelInput],
// [hal.Warner] and [hal.Bounder]. Only one goroutine may use it, except for HaltBeside, Calling and
// Warning.
// Sense and Act allocate nothing, also when they fail: the next error of a device overwrites the
// previous one.
type Robot struct {
	wiring
	now     func() int64
	devices []*device
	order   []int // in which devices are read: the one of the stop input first
	// measuring are the devices whose inputs measure positions.
	measuring []int
	values    []float64 // of all sources
	last      []float64 // the latest command, a value for each action
	sensed    bool      // the latest Sense succeeded
	acted     bool      // since Arm
	errs      []error   // scratch
	halted    bool
	pressed   bool        // state of the emergency stop
	cut       atomic.Bool // HaltBeside was called
	calling   atomic.Pointer[device]
}

// device is a Device and its state. Its slices have one element for each of its inputs, or outputs.
type device struct {
	Device
	// Optional interfaces of the driver, or nil. A type assertion may allocate: they are asserted
	// once.
	guarded  hal.DeadmanTimer
	counting hal.FaultCounter
	backstop hal.Backstop
	holder   hal.FailsafeHolder
	relaxer  hal.Relaxer
	stop     hal.StopInput
	armer    hal.ArmInput
	labels   hal.LabelInput
	warner   hal.Warner

	calling  *atomic.Pointer[device] // of the robot
	measured bool                    // an output has a measured position: no command but Halt may precede Arm
	inputs   []float64               // within Robot.values
	outputs  []float64
	failsafe []float64
	stale    int64

	at      int64 // time of the newest sample
	bits    []uint64
	same    int  // consecutive new samples with the same bits
	failing bool // the latest transaction failed
	late    bool // halted after the working devices
	faults  hal.Faults
	failure [operations]Error
}

var (
	_ hal.Robot        = (*Robot)(nil)
	_ hal.Backstop     = (*Robot)(nil)
	_ hal.DeadmanTimer = (*Robot)(nil)
	_ hal.Disarmer     = (*Robot)(nil)
	_ hal.Limper       = (*Robot)(nil)
	_ hal.Meter        = (*Robot)(nil)
	_ hal.StopInput    = (*Robot)(nil)
	_ hal.ArmInput     = (*Robot)(nil)
	_ hal.LabelInput   = (*Robot)(nil)
	_ hal.Warner       = (*Robot)(nil)
	_ hal.Bounder      = (*Robot)(nil)
)

// New returns a robot and writes the disarmed outputs to its devices, except to those with measured
// positions, which Arm sets. They are read, written, armed and halted in the given order, and
// closed by Close. now is the devices' clock, CLOCK_MONOTONIC in nanoseconds. After an error the
// caller must close the devices; New has halted them if it had written to them.
func New(cfg Config, now func() int64, devices ...Device) (*Robot, error) {
	parts := make([]Part, len(devices))
	for i, d := range devices {
		parts[i] = Part{Name: d.Name, Inputs: d.Inputs(), Outputs: d.Outputs()}
	}
	w, err := cfg.wire(parts)
	if err != nil {
		return nil, err
	}
	r := &Robot{
		wiring: *w, now: now, halted: true,
		pressed: w.stop >= 0,
		values:  make([]float64, w.sources),
		last:    make([]float64, len(w.acts)),
	}
	for i, d := range devices {
		if d.Stale < 0 || d.FrozenTicks < 0 {
			return nil, fmt.Errorf("composite: %s: negative stale time or frozen ticks (%v, %d)",
				d.Name, d.Stale, d.FrozenTicks)
		}
		made := newDevice(d, cfg.Period, r.values[w.first[i]:][:len(parts[i].Inputs)])
		made.calling = &r.calling
		if made.informs() && len(made.inputs) == 0 {
			return nil, fmt.Errorf("composite: %s: its buttons would never be read: it has no inputs; give its driver one",
				d.Name)
		}
		r.devices = append(r.devices, made)
	}
	r.order = r.readingOrder()
	r.measuring = r.measuringDevices()
	r.errs = make([]error, 0, len(devices))
	for _, a := range r.acts {
		d := r.devices[a.device]
		d.failsafe[a.output] = a.haltOutput()
		d.measured = d.measured || a.sensor != ""
	}
	for _, d := range r.devices {
		if d.holder == nil {
			continue
		}
		if err := d.holder.SetFailsafe(d.failsafe); err != nil {
			return nil, fmt.Errorf("composite: %s: failsafe: %w", d.Name, err)
		}
	}
	if err := r.Disarm(); err != nil {
		return nil, errors.Join(err, r.Halt())
	}
	return r, nil
}

// readingOrder puts the devices with a stop input first, so that the robot reads them after any
// fault of others.
func (r *Robot) readingOrder() (order []int) {
	for i, d := range r.devices {
		if r.hasStop(i) || d.stop != nil {
			order = slices.Insert(order, 0, i)
		} else {
			order = append(order, i)
		}
	}
	return order
}

// measuringDevices returns the devices of the sources that measure positions.
func (r *Robot) measuringDevices() (devices []int) {
	for i, d := range r.devices {
		first := r.first[i]
		if slices.ContainsFunc(r.acts, func(a drive) bool {
			return a.sensor != "" && a.measured.source >= first && a.measured.source < first+len(d.inputs)
		}) {
			devices = append(devices, i)
		}
	}
	return devices
}

// hasStop reports whether a device has the stop input.
func (r *Robot) hasStop(device int) bool {
	first := r.first[device]
	return r.stop >= first && r.stop < first+len(r.devices[device].inputs)
}

func newDevice(d Device, period time.Duration, inputs []float64) *device {
	d.Stale = cmp.Or(d.Stale, 3*period)
	n := len(d.Outputs())
	made := &device{
		Device: d, inputs: inputs,
		outputs: make([]float64, n), failsafe: make([]float64, n),
		stale: d.Stale.Nanoseconds(), bits: make([]uint64, len(inputs)),
	}
	made.guarded, _ = d.Device.(hal.DeadmanTimer)
	made.counting, _ = d.Device.(hal.FaultCounter)
	made.backstop, _ = d.Device.(hal.Backstop)
	made.holder, _ = d.Device.(hal.FailsafeHolder)
	made.relaxer, _ = d.Device.(hal.Relaxer)
	made.stop, _ = d.Device.(hal.StopInput)
	made.armer, _ = d.Device.(hal.ArmInput)
	made.labels, _ = d.Device.(hal.LabelInput)
	made.warner, _ = d.Device.(hal.Warner)
	return made
}

// Spec describes the channels.
func (r *Robot) Spec() hal.Spec { return r.spec }

// Sense reads all devices one after the other, the one of the stop input first, and returns the
// time of the oldest of their samples. It ends at the first device that fails, is stale or frozen,
// or returns a number that is not finite: a blocked bus costs a tick one timeout, and not one for
// each device.
func (r *Robot) Sense(obs []float32) (at int64, err error) {
	if len(obs) != len(r.senses) {
		return 0, fmt.Errorf("composite: sense: obs has the wrong length (%d, not %d)", len(obs), len(r.senses))
	}
	r.sensed = false
	for _, i := range r.order {
		err := r.devices[i].read()
		r.updateStop(i, err)
		if err != nil {
			return 0, err
		}
	}
	if at, err = r.oldest(); err != nil {
		return 0, err
	}
	if err := r.observe(obs, at); err != nil {
		return 0, err
	}
	r.sensed = true
	if !r.halted && !r.acted {
		r.rebase()
	}
	return at, nil
}

// rebase lets rate limits begin at the measured positions: an actuator may have moved while the
// devices were armed.
func (r *Robot) rebase() {
	for i := range r.acts {
		if a := &r.acts[i]; a.sensor != "" {
			r.last[i] = min(max(a.measured.of(r.values), a.low), a.high)
		}
	}
}

// Positions implements hal.Meter.
func (r *Robot) Positions(dst []float32) {
	for i, a := range r.acts {
		dst[i] = float32(math.NaN())
		if a.sensor != "" && r.sensed {
			dst[i] = float32(a.measured.of(r.values))
		}
	}
}

// updateStop updates the stop input after a read of its device. A failed read, or a stale sample,
// counts as pressed.
func (r *Robot) updateStop(device int, err error) {
	if r.hasStop(device) {
		d := r.devices[device]
		r.pressed = err != nil || r.now()-d.at > d.stale || r.values[r.stop] <= 0.5
	}
}

// oldest returns the time of the oldest sample. It fails if a sample is stale.
func (r *Robot) oldest() (int64, error) {
	now := r.now()
	at := now
	for _, d := range r.devices {
		if len(d.inputs) == 0 {
			continue
		}
		if now-d.at > d.stale {
			return 0, d.fail(reading, hal.ErrStale)
		}
		at = min(at, d.at)
	}
	return at, nil
}

// read reads a device that has inputs, and checks the sample.
func (d *device) read() error {
	if len(d.inputs) == 0 && d.holder == nil {
		return nil
	}
	d.calling.Store(d)
	at, err := d.Read(d.inputs)
	if err != nil {
		return d.failOf(reading, err)
	}
	d.failing = false
	if at < d.at {
		return d.fail(reading, errBackwards)
	}
	fresh := at > d.at
	d.at = at
	same := true
	for i, v := range d.inputs {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return d.fail(reading, errNotFinite)
		}
		bits := math.Float64bits(v)
		same = same && bits == d.bits[i]
		d.bits[i] = bits
	}
	switch {
	case !same:
		d.same = 1
	case fresh:
		d.same++
	}
	if d.FrozenTicks > 0 && len(d.inputs) > 0 && d.same > d.FrozenTicks {
		return d.fail(reading, errFrozen)
	}
	return nil
}

// observe computes the observation.
func (r *Robot) observe(obs []float32, at int64) error {
	if r.odometry >= 0 {
		r.reckon.step(at, r.values, r.values[r.odometry:][:len(odometrySignals)])
	}
	for i, l := range r.senses {
		v := l.of(r.values)
		if !(math.Abs(v) <= math.MaxFloat32) {
			return errTooLarge
		}
		obs[i] = float32(v)
	}
	return nil
}

// Act commands the outputs of all devices. An action changes at most by its rate limit, starting
// from where Arm began. Act ends at the first error; the caller must then halt the robot.
func (r *Robot) Act(action []float32) error {
	if r.halted || r.cut.Load() {
		return hal.ErrHalted
	}
	if err := r.spec.CheckAction(action); err != nil {
		return err
	}
	r.acted = true
	for i, a := range r.acts {
		// The float32 of a limit such as 0.1 differs slightly.
		v := min(max(float64(action[i]), a.low), a.high)
		// The controller also limits rates.
		r.command(i, min(max(v, r.last[i]-a.step), r.last[i]+a.step))
	}
	for _, d := range r.devices {
		if err := r.checkCut(d.write(d.outputs)); err != nil {
			return err
		}
	}
	return nil
}

func (d *device) write(outputs []float64) error {
	if len(outputs) == 0 {
		return nil
	}
	d.calling.Store(d)
	if err := d.Write(outputs); err != nil {
		return d.failOf(writing, err)
	}
	d.failing = false
	return nil
}

// Arm reads the measured positions. It writes them, and the disarmed outputs of other actions, and
// arms the devices. A hal.FailsafeHolder has its failsafe outputs until it is armed. After a
// failure Arm relaxes the devices that can go limp, because their failsafe output could be a jump,
// and then halts all of them. It arms no further device after HaltBeside.
func (r *Robot) Arm() error {
	r.cut.Store(false)
	r.acted = false
	err := r.checkCut(r.begin())
	for _, d := range r.devices {
		if err == nil {
			err = r.checkCut(d.arm())
		}
	}
	if err != nil {
		for _, d := range r.devices {
			if d.relaxer != nil {
				err = errors.Join(err, d.limp())
			}
		}
		return errors.Join(err, r.Halt())
	}
	r.halted = false
	return nil
}

// checkCut returns err, or an error if HaltBeside was called.
func (r *Robot) checkCut(err error) error {
	if err == nil && r.cut.Load() {
		return fmt.Errorf("composite: the watchdog halted the robot: %w", hal.ErrHalted)
	}
	return err
}

func (d *device) arm() error {
	d.calling.Store(d)
	if err := d.Device.Arm(); err != nil {
		return d.failOf(arming, err)
	}
	if d.holder != nil {
		return d.write(d.outputs)
	}
	return nil
}

// begin writes the first command of each action, except to a hal.FailsafeHolder.
func (r *Robot) begin() error {
	r.halted = true
	for _, i := range r.measuring {
		if err := r.devices[i].read(); err != nil {
			return err
		}
	}
	for i, a := range r.acts {
		v := a.disarmed
		if a.sensor != "" {
			c, x := &r.spec.Action[i], a.measured.of(r.values)
			var near bool
			if v, near = c.Nearest(x, r.spec.Period); !near {
				return fmt.Errorf("composite: arm: %q is at %.4g %s, outside its limits %g to %g; move it by hand into them",
					c.Name, x, c.Unit, c.Min, c.Max)
			}
		}
		r.command(i, v)
	}
	errs := r.errs[:0]
	for _, d := range r.devices {
		if d.holder == nil {
			errs = append(errs, d.write(d.outputs))
		}
	}
	return errors.Join(errs...)
}

// command sets an action's latest value and its output.
func (r *Robot) command(action int, v float64) {
	a := &r.acts[action]
	r.last[action], r.values[r.action+action] = v, v
	r.devices[a.device].outputs[a.output] = a.gain*v + a.offset
}

// Disarm keeps the latest command of positions, writes the disarmed outputs of other actions, and
// halts each hal.FailsafeHolder, last. Act fails until Arm.
func (r *Robot) Disarm() error { return r.disarm((*device).rest) }

// Limp implements hal.Limper: it relaxes each hal.Relaxer and disarms the other devices. Act fails
// until Arm.
func (r *Robot) Limp() error { return r.disarm((*device).limp) }

func (r *Robot) disarm(command func(*device) error) error {
	moved := !r.halted
	r.halted = true
	for i, a := range r.acts {
		if !moved && a.sensor == "" || !r.spec.Action[i].IsPosition() {
			r.command(i, a.disarmed)
		}
	}
	errs := r.errs[:0]
	for _, holders := range [...]bool{false, true} { // holders last: they wait for an answer
		for _, d := range r.devices {
			if (d.holder != nil) == holders && (moved || holders || !d.measured) {
				errs = append(errs, command(d))
			}
		}
	}
	return errors.Join(errs...)
}

// rest commands the outputs of a disarmed robot to a device that may be armed.
func (d *device) rest() error {
	if d.holder != nil {
		return d.halt()
	}
	return d.write(d.outputs)
}

// limp makes the outputs ineffective where the device can.
func (d *device) limp() error {
	if d.relaxer == nil {
		return d.rest()
	}
	d.calling.Store(d)
	if err := d.relaxer.Relax(); err != nil {
		return d.failOf(halting, err)
	}
	return nil
}

// Halt commands the failsafe outputs of every device, also after errors, which it joins. Devices
// whose latest transaction succeeded come first, so that they do not wait for broken ones.
func (r *Robot) Halt() error {
	r.halted = true
	for i, a := range r.acts {
		if !a.holds {
			r.last[i], r.values[r.action+i] = a.failsafe, a.failsafe
		}
	}
	for _, d := range r.devices {
		d.late = d.failing
	}
	var errs []error
	for _, late := range [...]bool{false, true} {
		for _, d := range r.devices {
			if d.late == late {
				errs = append(errs, d.halt())
			}
		}
	}
	return errors.Join(errs...)
}

func (d *device) halt() error {
	d.calling.Store(d)
	if err := d.Device.Halt(d.failsafe); err != nil {
		return d.failOf(halting, err)
	}
	return nil
}

// HaltBeside uses the second path of every device that has one. Any goroutine may call it. Act
// fails until Arm.
func (r *Robot) HaltBeside() {
	r.cut.Store(true)
	for _, d := range r.devices {
		if d.backstop != nil {
			d.backstop.HaltBeside()
		}
	}
}

// Calling returns the name of the device whose call is in progress, or was the latest; "" before the
// first one. Any goroutine may call it.
func (r *Robot) Calling() string {
	if d := r.calling.Load(); d != nil {
		return d.Name
	}
	return ""
}

// Deadman returns the longest deadman of the devices with outputs, and 0 if one has none.
func (r *Robot) Deadman() time.Duration {
	var longest time.Duration
	for _, d := range r.devices {
		if len(d.outputs) == 0 {
			continue
		}
		if d.deadman() == 0 {
			return 0
		}
		longest = max(longest, d.deadman())
	}
	return longest
}

func (d *device) deadman() time.Duration {
	if d.guarded == nil {
		return 0
	}
	return d.guarded.Deadman()
}

// Shares returns the devices' parts of Bounds, in their order.
func (r *Robot) Shares() []hal.Share {
	shares := make([]hal.Share, len(r.devices))
	for i, d := range r.devices {
		shares[i] = Part{d.Name, d.Device.Inputs(), d.Device.Outputs()}.Share(hal.BoundsOf(d.Device.Device))
	}
	return shares
}

// Share returns the share of a device with these bounds.
func (p Part) Share(b hal.Bounds) hal.Share {
	if len(p.Inputs) == 0 {
		b.Sense = 0
	}
	if len(p.Outputs) == 0 {
		b.Act = 0
	}
	b.Arm += b.Act + b.Halt // Arm first writes; a Halt follows a failure
	if slices.ContainsFunc(p.Outputs, func(s hal.Signal) bool { return s.Measured != "" }) {
		b.Arm += b.Sense + b.Halt // Arm first reads; after a failure the device goes limp before it is halted
	}
	return hal.Share{Name: p.Name, Bounds: b}
}

// Bounds returns the sum of the devices' shares, since they are called one after the other.
func (r *Robot) Bounds() (sum hal.Bounds) {
	for _, s := range r.Shares() {
		sum = sum.Plus(s.Bounds)
	}
	return sum
}

// Unguarded returns the names of the devices with outputs and without a deadman.
func (r *Robot) Unguarded() (names []string) {
	for _, d := range r.devices {
		if len(d.outputs) > 0 && d.deadman() == 0 {
			names = append(names, d.Name)
		}
	}
	return names
}

// Close closes the devices in reverse order. It does not halt them.
func (r *Robot) Close() error {
	var errs []error
	for _, d := range slices.Backward(r.devices) {
		if err := d.Close(); err != nil {
			errs = append(errs, fmt.Errorf("composite: %s: close: %w", d.Name, err))
		}
	}
	return errors.Join(errs...)
}
