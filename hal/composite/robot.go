package composite

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"optibfm/hal"
)

// Robot is a robot made of devices. It implements [hal.Robot], [hal.Backstop],
// [hal.Guarded], [hal.Disarmer], [hal.StopInput] and [hal.Bounded]. But for HaltBeside, it belongs to one
// goroutine. Sense and Act allocate nothing, also when they fail; the error of a call is overwritten
// by the next one of its kind.
type Robot struct {
	wiring
	now     func() int64
	devices []*device
	order   []int     // in which devices are read: that of the stop input first
	values  []float64 // of all sources
	last    []float64 // what was commanded last, a value for each action
	frames  []float32 // the observation: History ticks, the oldest first
	filled  bool
	halted  bool
	pressed bool        // the emergency stop, by its input
	cut     atomic.Bool // HaltBeside was called
}

// device is a Device at work. Its slices have one element for each of its
// inputs, or outputs.
type device struct {
	Device
	// What the driver can do besides, nil where it cannot. Asked for once: the
	// runtime allocates now and then where an interface is asked for another.
	guarded  hal.Guarded
	counting hal.Counting
	backstop hal.Backstop

	inputs   []float64 // within Robot.values
	outputs  []float64
	failsafe []float64
	disarmed []float64
	stale    int64

	at      int64 // of the newest sample
	bits    []uint64
	same    int  // new samples in a row with the same bits
	failing bool // the last transaction failed
	late    bool // is halted after those that work
	faults  hal.Faults
	failure [operations]Error
}

var (
	_ hal.Robot     = (*Robot)(nil)
	_ hal.Backstop  = (*Robot)(nil)
	_ hal.Guarded   = (*Robot)(nil)
	_ hal.Disarmer  = (*Robot)(nil)
	_ hal.StopInput = (*Robot)(nil)
	_ hal.Bounded   = (*Robot)(nil)
)

// New makes a robot and writes the disarmed outputs to its devices. They are
// read, written, armed and halted in the order given, and closed by Close. now
// is the devices' clock, CLOCK_MONOTONIC in nanoseconds. After an error the
// devices are halted, where they were written to, and the caller's.
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
		values:  make([]float64, w.sources), last: make([]float64, len(w.acts)), frames: make([]float32, len(w.spec.Obs)),
	}
	for i, d := range devices {
		if d.Stale < 0 || d.FrozenTicks < 0 {
			return nil, fmt.Errorf("composite: %s: the stale time or the frozen ticks are negative (%v, %d): give 0 or more", d.Name, d.Stale, d.FrozenTicks)
		}
		r.devices = append(r.devices, newDevice(d, cfg.Period, r.values[w.first[i]:][:len(parts[i].Inputs)]))
	}
	r.order = r.readingOrder()
	for _, a := range r.acts {
		d := r.devices[a.device]
		d.failsafe[a.output] = a.gain*a.failsafe + a.offset
		d.disarmed[a.output] = a.gain*a.disarmed + a.offset
	}
	if err := r.Disarm(); err != nil {
		return nil, errors.Join(err, r.Halt())
	}
	return r, nil
}

// readingOrder puts the device of the emergency stop first, so that no other one's
// failure keeps it from being read.
func (r *Robot) readingOrder() (order []int) {
	for i := range r.devices {
		if r.hasStop(i) {
			order = slices.Insert(order, 0, i)
		} else {
			order = append(order, i)
		}
	}
	return order
}

// hasStop reports whether the stop input is a device's.
func (r *Robot) hasStop(device int) bool {
	first := r.first[device]
	return r.stop >= first && r.stop < first+len(r.devices[device].inputs)
}

func newDevice(d Device, period time.Duration, inputs []float64) *device {
	if d.Stale == 0 {
		d.Stale = 3 * period
	}
	n := len(d.Outputs())
	made := &device{
		Device: d, inputs: inputs, outputs: make([]float64, n), failsafe: make([]float64, n), disarmed: make([]float64, n),
		stale: d.Stale.Nanoseconds(), bits: make([]uint64, len(inputs)),
	}
	made.guarded, _ = d.Device.(hal.Guarded)
	made.counting, _ = d.Device.(hal.Counting)
	made.backstop, _ = d.Device.(hal.Backstop)
	return made
}

// Spec describes the channels. With a history the observation is that of the
// oldest tick, then the next, up to the newest; NAME@-2 is NAME two ticks ago.
func (r *Robot) Spec() hal.Spec { return r.spec }

// Sense reads all devices, one after the other, the one of the stop input first,
// and returns the time of the
// oldest of their samples. It fails where one device does, has only a sample
// that is too old, gives a number that is not finite, or is frozen. A device
// that fails ends it: a bus that is held costs a tick one time-out, not one for
// each device on it.
func (r *Robot) Sense(obs []float32) (at int64, err error) {
	if len(obs) != len(r.frames) {
		return 0, fmt.Errorf("composite: sense: obs has the wrong length (%d): give %d elements", len(obs), len(r.frames))
	}
	for _, i := range r.order {
		err := r.devices[i].read()
		r.noteStop(i, err)
		if err != nil {
			return 0, err
		}
	}
	if at, err = r.oldest(); err != nil {
		return 0, err
	}
	if err := r.observe(at); err != nil {
		return 0, err
	}
	copy(obs, r.frames)
	return at, nil
}

// noteStop looks at the stop input when its device was read, in vain or not. A
// sample that is too old says nothing of a button.
func (r *Robot) noteStop(device int, err error) {
	if r.hasStop(device) {
		d := r.devices[device]
		r.pressed = err != nil || r.now()-d.at > d.stale || r.values[r.stop] <= 0.5
	}
}

// StopPressed implements hal.StopInput.
func (r *Robot) StopPressed() bool { return r.pressed }

// oldest is the time of the oldest sample, none of which may be stale when all
// are there.
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

// read takes a sample of a device that has inputs.
func (d *device) read() error {
	if len(d.inputs) == 0 {
		return nil
	}
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
	if d.FrozenTicks > 0 && d.same > d.FrozenTicks {
		return d.fail(reading, errFrozen)
	}
	return nil
}

// observe makes the newest tick's part of the observation.
func (r *Robot) observe(at int64) error {
	if r.odometry >= 0 {
		r.reckon.step(at, r.values, r.values[r.odometry:][:len(odometrySignals)])
	}
	n := len(r.senses)
	newest := r.frames[len(r.frames)-n:]
	if r.filled {
		copy(r.frames, r.frames[n:])
	}
	for i, l := range r.senses {
		v := l.of(r.values)
		if !(math.Abs(v) <= math.MaxFloat32) {
			r.filled = false
			return errTooLarge
		}
		newest[i] = float32(v)
	}
	if r.filled {
		return nil
	}
	for i := 0; i < len(r.frames)-n; i += n {
		copy(r.frames[i:], newest)
	}
	r.filled = true
	return nil
}

// Act commands the outputs of all devices. No action changes faster than its
// rate limit, counted from where Arm left it. With the first error it stops: the
// robot is to be halted then.
func (r *Robot) Act(action []float32) error {
	if r.halted || r.cut.Load() {
		return hal.ErrHalted
	}
	if err := r.spec.CheckAction(action); err != nil {
		return err
	}
	for i, a := range r.acts {
		// A limit such as 0.1 is a little different as a float32.
		v := min(max(float64(action[i]), a.low), a.high)
		// The controller limits rates too, but from the failsafe values.
		v = min(max(v, r.last[i]-a.step), r.last[i]+a.step)
		r.last[i], r.values[r.action+i] = v, v
		r.devices[a.device].outputs[a.output] = a.gain*v + a.offset
	}
	for _, d := range r.devices {
		if err := d.write(d.outputs); err != nil {
			return err
		}
	}
	return nil
}

func (d *device) write(outputs []float64) error {
	if len(outputs) == 0 {
		return nil
	}
	if err := d.Write(outputs); err != nil {
		return d.failOf(writing, err)
	}
	d.failing = false
	return nil
}

// Arm commands the disarmed outputs and arms the devices. Where one cannot be
// armed, all are halted.
func (r *Robot) Arm() error {
	r.cut.Store(false)
	err := r.Disarm()
	for _, d := range r.devices {
		if err == nil {
			err = d.arm()
		}
	}
	if err == nil && r.cut.Load() {
		err = fmt.Errorf("composite: arm: %w", hal.ErrHalted)
	}
	if err != nil {
		return errors.Join(err, r.Halt())
	}
	for i, a := range r.acts {
		r.values[r.action+i] = a.start
	}
	r.halted = false
	return nil
}

func (d *device) arm() error {
	if err := d.Device.Arm(); err != nil {
		return d.failOf(arming, err)
	}
	return nil
}

// Disarm latches, and commands the disarmed outputs, which need not be the
// failsafe ones: those stop a robot that moves, these suit one that rests.
func (r *Robot) Disarm() error {
	r.halted = true
	for i, a := range r.acts {
		r.last[i], r.values[r.action+i] = a.disarmed, a.disarmed
	}
	var errs []error
	for _, d := range r.devices {
		errs = append(errs, d.write(d.disarmed))
	}
	return errors.Join(errs...)
}

// Halt commands the failsafe outputs of every device, also after errors, which
// it joins. Devices whose last transaction succeeded come first, so that they
// need not wait for those that are broken.
func (r *Robot) Halt() error {
	r.halted = true
	for i, a := range r.acts {
		r.last[i], r.values[r.action+i] = a.failsafe, a.failsafe
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
	if err := d.Device.Halt(d.failsafe); err != nil {
		return d.failOf(halting, err)
	}
	return nil
}

// HaltBeside takes the second path of every device that has one. Any goroutine
// may call it. Until Arm, Act is refused.
func (r *Robot) HaltBeside() {
	r.cut.Store(true)
	for _, d := range r.devices {
		if d.backstop != nil {
			d.backstop.HaltBeside()
		}
	}
}

// Deadman is the longest time after which a device with outputs stops by itself,
// and 0 where one does not.
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

// Share is a device's part of the time that a robot takes at most.
type Share struct {
	Name string // of the device
	hal.Bounds
}

// Shares are the devices' parts of Bounds, in their order: what is called of each.
func (r *Robot) Shares() []Share {
	shares := make([]Share, len(r.devices))
	for i, d := range r.devices {
		shares[i] = Part{d.Name, d.Device.Inputs(), d.Device.Outputs()}.Share(hal.BoundsOf(d.Device.Device))
	}
	return shares
}

// Share is the part that a device with these bounds has.
func (p Part) Share(b hal.Bounds) Share {
	if len(p.Inputs) == 0 {
		b.Sense = 0
	}
	if len(p.Outputs) == 0 {
		b.Act = 0
	}
	b.Arm += b.Act + b.Halt // the disarmed outputs come first, a Halt follows a failure
	return Share{p.Name, b}
}

// Bounds is the sum of the devices' shares: they are called one after the other.
func (r *Robot) Bounds() (sum hal.Bounds) {
	for _, s := range r.Shares() {
		sum = sum.Plus(s.Bounds)
	}
	return sum
}

// Unguarded names the devices with outputs that do not stop by themselves.
func (r *Robot) Unguarded() (names []string) {
	for _, d := range r.devices {
		if len(d.outputs) > 0 && d.deadman() == 0 {
			names = append(names, d.Name)
		}
	}
	return names
}

// Close closes the devices, the last first. It does not halt them.
func (r *Robot) Close() error {
	var errs []error
	for _, d := range slices.Backward(r.devices) {
		if err := d.Close(); err != nil {
			errs = append(errs, fmt.Errorf("composite: %s: close: %w", d.Name, err))
		}
	}
	return errors.Join(errs...)
}
