package feetech

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"optibfm/hal"
	"optibfm/hal/monotonic"
	"optibfm/hal/serial"
	"optibfm/hal/servobus"
)

// Registers of the STS series (memory table of the STS3215).
const (
	regModel       = 3  // 2 bytes
	regReturnDelay = 7  // 1 byte, 2 µs
	regLimits      = 9  // minimum and maximum angle, 2 bytes each; both 0: multi-turn mode
	regMode        = 33 // 0 position, 1 velocity
	regTorque      = 40
	regGoal        = 42 // position 2, time 2, velocity 2
	regGoalSpeed   = 46
	// Position 2, velocity 2, load 2, voltage 1, temperature 1, 1, status 1, moving 1, 2,
	// current 2.
	regPresent = 56

	goalSize      = 6
	presentSize   = 15
	holdSize      = regGoal + goalSize - regTorque // the block of torque and all goals
	stopSize      = regPresent + 2 - regTorque     // the block of torque, goals and position
	currentOffset = 13
	goalOffset    = regGoal - regTorque
	speedOffset   = regGoalSpeed - regTorque
)

const (
	stepsPerTurn   = 4096
	middle         = 2048
	radPerStep     = 2 * math.Pi / stepsPerTurn
	amperePerUnit  = 0.0065
	maxMagnitude   = 1<<15 - 1
	maxMultiTurn   = 30_719 // largest goal in multi-turn mode, in steps from the middle
	delayUnit      = 2 * time.Microsecond
	statusFaults   = 0x3F // voltage, sensor, temperature, current, angle, overload
	openingTimeout = 30 * time.Millisecond
)

// models have these registers.
var models = map[uint16]string{777: "STS3215", 2825: "STS3250"}

// Device is a chain of servos. It implements hal.Device, hal.Relaxer and hal.FaultCounter. It does
// not implement hal.DeadmanTimer: see the package documentation.
type Device struct {
	config  Config
	bus     *servobus.Bus
	servos  []servo
	inputs  []hal.Signal
	outputs []hal.Signal
	active  bool   // since Arm or Halt: Write sends velocities
	armed   bool   // since Arm: Write also sends positions
	data    []byte // payload of a sync write
	readAt  int64  // time of the latest Read
}

// servo is the driver's state of one servo.
type servo struct {
	Servo
	id         byte
	wheel      bool
	low, high  int // limits of its goal, steps or steps/s
	goal       int
	held       bool // goal is the position at the first Halt since Open, Arm or Relax
	torque     bool // as far as the driver knows
	silent     bool // it did not answer the latest Halt
	absent     bool // nor the one before, or it was not armed: Halt sends it no goal
	unwrapper  unwrapper
	errFault   error
	errWrapped error
}

// Open opens the port, finds every servo and checks its model, mode and return delay. It writes
// nothing. It takes up to some tens of milliseconds per servo, or until ctx ends.
func Open(ctx context.Context, c Config) (*Device, error) {
	d, err := newDevice(c)
	if err != nil {
		return nil, err
	}
	if err := d.bus.Probe(ctx, d.probe, c.timeout); err != nil {
		return nil, err
	}
	return d, nil
}

// newDevice opens the port. It assumes that the servos are set up as configured.
func newDevice(c Config) (*Device, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	port, err := serial.Open(c.Port)
	if err != nil {
		return nil, fmt.Errorf("feetech: %w", err)
	}
	n := len(c.Servos)
	d := &Device{
		config: c, inputs: c.Inputs(), outputs: c.Outputs(),
		servos: make([]servo, n), data: make([]byte, 0, n*(1+goalSize)),
	}
	members := make([]servobus.Servo, n)
	for i, config := range c.Servos {
		s := &d.servos[i]
		s.Servo, s.id, s.wheel = config, byte(config.ID), config.mode() == Velocity
		s.setLimits(make([]byte, 4))
		s.errFault = fmt.Errorf("%s: %w (voltage, sensor, temperature, current, angle or overload, see register 65); "+
			"remove the cause, then arm again", s.prefix(), hal.ErrDevice)
		s.errWrapped = fmt.Errorf("%s: %w (it crossed the wrap-around of its encoder: its way to a goal is a full turn); "+
			"move it back by hand, or mount it so that the joint does not reach the wrap-around", s.prefix(), hal.ErrDevice)
		members[i] = servobus.Servo{Name: config.Name, ID: s.id}
	}
	d.bus = servobus.New("feetech", port, newProtocol(n), members)
	answer := minPacket + stopSize + servobus.MaxExtra
	d.bus.SetTimeout(max(openingTimeout, servobus.Milliseconds(c.TimeoutMs)) + c.Port.WireTime(minPacket+answer))
	return d, nil
}

// prefix begins the errors about a servo.
func (s *servo) prefix() string { return fmt.Sprintf("feetech: %q (ID %d)", s.Name, s.ID) }

// probe finds servo i, checks its setup and reads its limits.
func (d *Device) probe(i int) (returnDelay time.Duration, err error) {
	s := &d.servos[i]
	if _, err := d.bus.Ping(s.id, AppendPacket(nil, Packet{ID: s.id, Code: Ping}), 0); err != nil {
		return 0, fmt.Errorf("%s: ping: %w; check power, ID and baud", s.prefix(), err)
	}
	model, err := d.read(s.id, regModel, 2)
	if err != nil {
		return 0, fmt.Errorf("%s: read model: %w", s.prefix(), err)
	}
	if number := binary.LittleEndian.Uint16(model); models[number] == "" {
		return 0, fmt.Errorf("%s: unsupported model number (%d); supported: STS3215, STS3250", s.prefix(), number)
	}
	setup, err := d.read(s.id, regReturnDelay, 6) // and the limits
	if err != nil {
		return 0, fmt.Errorf("%s: read settings: %w", s.prefix(), err)
	}
	mode, err := d.read(s.id, regMode, 1)
	if err != nil {
		return 0, fmt.Errorf("%s: read mode: %w", s.prefix(), err)
	}
	if want := boolByte(s.wheel); mode[0] != want {
		return 0, fmt.Errorf("%s: its mode is %d, not %d (%s); set register 33, or change mode",
			s.prefix(), mode[0], want, s.Servo.mode())
	}
	torque, err := d.read(s.id, regTorque, 1)
	if err != nil {
		return 0, fmt.Errorf("%s: read torque: %w", s.prefix(), err)
	}
	s.torque = torque[0] != 0 // a servo that was left on needs the goal of Halt
	s.setLimits(setup[regLimits-regReturnDelay:])
	return time.Duration(setup[0]) * delayUnit, nil
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// setLimits sets the limits of goals from the servo's angle limits.
func (s *servo) setLimits(angles []byte) {
	s.low, s.high = signed(angles), signed(angles[2:])
	switch {
	case s.wheel:
		s.low, s.high = -maxMagnitude, maxMagnitude
	case s.low == 0 && s.high == 0:
		s.low, s.high = -maxMultiTurn, maxMultiTurn
	}
}

// read reads registers of one servo, while opening.
func (d *Device) read(id byte, register, size int) ([]byte, error) {
	return d.bus.Read(id, register, size)
}

// Inputs implements hal.Device.
func (d *Device) Inputs() []hal.Signal { return d.inputs }

// Outputs implements hal.Device.
func (d *Device) Outputs() []hal.Signal { return d.outputs }

// Faults implements hal.FaultCounter. Each missing answer counts as one timeout.
func (d *Device) Faults() hal.Faults { return d.bus.Faults }

// Timeout returns the time limit of one transaction, T in the package documentation.
func (d *Device) Timeout() time.Duration { return d.bus.Timeout() }

// Bounds implements hal.Bounder: see the package documentation.
func (d *Device) Bounds() hal.Bounds { return boundsOf(d.Timeout()) }

func boundsOf(t time.Duration) hal.Bounds {
	return hal.Bounds{Sense: 2 * t, Act: t, Arm: 12 * t, Halt: 6 * t}
}

// Close implements hal.Device.
func (d *Device) Close() error { return d.bus.Port.Close() }

// Read implements hal.Device. The time of the sample is the time of the request.
func (d *Device) Read(dst []float64) (at int64, err error) {
	at, err = d.bus.SyncRead(regPresent, presentSize)
	if err != nil {
		return 0, err
	}
	recent := d.recent(at)
	d.readAt = at
	for i := range d.servos {
		a := d.bus.Data(i)
		dst[3*i] = radians(d.servos[i].unwrap(signed(a), recent))
		dst[3*i+1] = float64(signed(a[2:])) * radPerStep
		dst[3*i+2] = float64(signed(a[currentOffset:])) * amperePerUnit
		if d.bus.Alert(i) {
			d.bus.Faults.Device++
			err = d.servos[i].errFault
		} else if d.armed && d.servos[i].crossed() {
			d.bus.Faults.Device++
			err = d.servos[i].errWrapped
		}
	}
	return at, err
}

// unwrapper makes the position of an encoder continuous: the raw value jumps between 4095 and 0.
type unwrapper struct {
	raw   int // of the latest sample
	turns int // steps of the turns since the first sample
	known bool
}

// A crossing is a jump of nearly a turn: within longestGap, a joint moves by less than largestStep.
const (
	longestGap  = 500 * time.Millisecond
	largestStep = stepsPerTurn / 8
)

// recent reports whether the latest sample is at most longestGap older than at.
func (d *Device) recent(at int64) bool { return d.readAt != 0 && at-d.readAt < int64(longestGap) }

// near reports whether a joint can be at a raw position within longestGap after the latest sample.
// An answer with several bit errors may pass its checksum of 8 bits.
func (s *servo) near(raw int) bool {
	step := max(raw-s.unwrapper.raw, s.unwrapper.raw-raw)
	return !s.unwrapper.known || min(step, stepsPerTurn-step) < largestStep
}

// unwrap returns the position of a raw sample. A joint is counted from the raw position again after
// a longer gap, in which it may have moved anywhere; a wheel keeps its turns. In multi-turn mode
// the servo counts itself.
func (s *servo) unwrap(raw int, recent bool) int {
	switch step := raw - s.unwrapper.raw; {
	case s.multiTurn():
		return raw
	case !s.unwrapper.known || !recent && !s.wheel:
		s.unwrapper.turns = 0
	case step > stepsPerTurn-largestStep:
		s.unwrapper.turns -= stepsPerTurn
	case step < largestStep-stepsPerTurn:
		s.unwrapper.turns += stepsPerTurn
	}
	s.unwrapper.raw, s.unwrapper.known = raw, true
	return raw + s.unwrapper.turns
}

// multiTurn reports whether the servo counts full turns.
func (s *servo) multiTurn() bool { return !s.wheel && (s.low < 0 || s.high >= stepsPerTurn) }

// crossed reports whether a joint crossed the wrap-around. The servo then turns the long way to its
// goal.
func (s *servo) crossed() bool { return !s.wheel && s.unwrapper.turns != 0 }

// radians converts a position in steps.
func radians(steps int) float64 { return float64(steps-middle) * radPerStep }

// Write implements hal.Device. Servos without torque receive no goals, and servos in position mode
// receive them only between Arm and Halt. Before the first Arm or Halt, and after Relax, Write only
// stores the goals.
func (d *Device) Write(outputs []float64) error {
	if err := d.setGoals(outputs); err != nil || !d.active {
		return err
	}
	for i := range d.servos {
		if s := &d.servos[i]; d.armed && s.crossed() {
			return s.errWrapped
		}
	}
	return d.writeGoals(d.armed, d.bus.Deadline())
}

// setGoals converts outputs to steps, within the servos' limits.
func (d *Device) setGoals(outputs []float64) error {
	if err := d.bus.CheckFinite(outputs); err != nil {
		return err
	}
	for i, v := range outputs {
		d.servos[i].setGoal(v)
	}
	return nil
}

func (s *servo) setGoal(output float64) {
	steps := math.Round(output / radPerStep)
	if !s.wheel {
		steps += middle
	}
	s.goal, s.held = int(min(max(steps, float64(s.low)), float64(s.high))), false
}

// appendGoal appends the goal as it is written to the servo: position, time 0 and velocity 0 (as
// fast as possible), or the velocity.
func (s *servo) appendGoal(dst []byte) []byte {
	if dst = appendSigned(dst, s.goal); s.wheel {
		return dst
	}
	return append(dst, 0, 0, 0, 0)
}

// writeGoals writes the goals of the servos with torque: a goal switches the torque on with some
// firmware. It is one sync write for each mode in use.
func (d *Device) writeGoals(positions bool, deadline int64) error {
	var first error // the wheels get their goals also after an error
	if p := d.goalsOf(false); positions && len(p) > 0 {
		first = d.bus.SyncWrite(regGoal, goalSize, p, deadline)
	}
	if p := d.goalsOf(true); len(p) > 0 {
		if err := d.bus.SyncWrite(regGoalSpeed, 2, p, deadline); first == nil {
			first = err
		}
	}
	return first
}

// goalsOf returns the payload for the servos in velocity mode, or for the others.
func (d *Device) goalsOf(wheels bool) []byte {
	p := d.data[:0]
	for i := range d.servos {
		if s := &d.servos[i]; s.wheel == wheels && s.torque && !s.absent {
			p = s.appendGoal(append(p, s.id))
		}
	}
	return p
}

func (d *Device) setTorque(on bool) {
	for i := range d.servos {
		s := &d.servos[i]
		s.torque, s.silent, s.absent = on, false, false
	}
}

// findLimp reads which servos have lost their torque, and their positions. One whose power was off
// is limp, and a goal could switch its torque on; the same is expected of one that is silent for a
// second Halt.
func (d *Device) findLimp() {
	_, _ = d.bus.SyncRead(regTorque, stopSize) // an error shows in Answered, and in the Halt that follows
	for i := range d.servos {
		s := &d.servos[i]
		if !d.bus.Answered(i) {
			s.absent, s.silent = s.silent, true
			continue
		}
		s.absent, s.silent = false, false
		s.torque = s.torque && d.bus.Data(i)[0] != 0
	}
}

// Arm implements hal.Device. It opens a lost port again, reads the present positions, and refuses
// servos that report a fault or are outside of their limits. It writes these positions as goals,
// and the velocities of the latest Write, switches the torque on, and reads all of that back. After
// a failure it switches the torque off.
func (d *Device) Arm() error {
	d.armed = false
	if err := d.bus.Recover(); err != nil {
		return fmt.Errorf("feetech: arm: %w", err)
	}
	if err := d.arm(); err != nil {
		d.setTorque(false)
		_ = d.bus.WriteAll(regTorque, 0) // if it is lost, Halt repeats it
		return fmt.Errorf("feetech: arm: %w", err)
	}
	d.active, d.armed = true, true
	return nil
}

func (d *Device) arm() error {
	at, err := d.bus.SyncRead(regPresent, presentSize)
	if err != nil {
		return err
	}
	recent := d.recent(at)
	d.readAt = at
	for i := range d.servos {
		s := &d.servos[i]
		if d.bus.Alert(i) {
			d.bus.Faults.Device++
			return s.errFault
		}
		if s.wheel {
			continue
		}
		s.held = false
		if s.goal = s.unwrap(signed(d.bus.Data(i)), recent); s.goal < s.low || s.goal > s.high {
			return d.bus.Outside(i, radians(s.goal), radians(s.low), radians(s.high))
		}
	}
	d.setTorque(true) // the goals may switch it on
	if err := d.writeGoals(true, d.bus.Deadline()); err != nil {
		return err
	}
	if err := d.bus.WriteAll(regTorque, 1); err != nil {
		return err
	}
	if _, err := d.bus.SyncRead(regTorque, holdSize); err != nil {
		return err
	}
	return d.verify(true)
}

// Halt implements hal.Device. It opens a lost port again. It returns the error of a servo that does
// not confirm; all others have been commanded, twice.
func (d *Device) Halt(failsafe []float64) error {
	armed := d.armed
	d.active, d.armed = true, false
	if err := d.bus.Recover(); err != nil {
		return err
	}
	d.findLimp()
	goalErr := d.setHaltGoals(failsafe, armed)
	if err := d.bus.TryTwice(func() error { return d.haltOnce(goalErr == nil) }); err != nil {
		return err
	}
	return goalErr
}

// setHaltGoals is setGoals for Halt, after findLimp. A servo without an answer, or with a position
// where it cannot be, keeps the goal of an armed robot; without one it receives none.
func (d *Device) setHaltGoals(failsafe []float64, armed bool) error {
	for i, v := range failsafe {
		if math.IsInf(v, 0) || math.IsNaN(v) && d.servos[i].wheel {
			return d.bus.ErrNotFinite
		}
	}
	recent := d.recent(monotonic.Now())
	for i, v := range failsafe {
		s := &d.servos[i]
		raw := signed(d.bus.Data(i)[regPresent-regTorque:])
		switch {
		case !math.IsNaN(v):
			s.setGoal(v)
		case s.held:
		case d.bus.Answered(i) && (!recent || s.near(raw)):
			s.goal, s.held = min(max(raw, s.low), s.high), true
		case !armed:
			s.absent = true
		}
	}
	return nil
}

func (d *Device) haltOnce(withGoals bool) error {
	deadline := d.bus.Deadline()
	var goalErr error
	if withGoals {
		goalErr = d.writeGoals(true, deadline)
	}
	if d.config.HaltTorqueOff {
		d.setTorque(false)
	}
	if err := d.switchOff(deadline); err != nil {
		return err
	}
	if goalErr != nil {
		return goalErr
	}
	if err := d.bus.SyncReadOnce(regTorque, holdSize); err != nil {
		return err
	}
	return d.verify(withGoals)
}

// Relax implements hal.Relaxer. It switches the torque off, reads that back, and forgets the
// velocities. Until Arm, Write sends nothing.
func (d *Device) Relax() error {
	d.active, d.armed = false, false
	for i := range d.servos {
		d.servos[i].goal, d.servos[i].held = 0, false
	}
	d.setTorque(false)
	return d.bus.TryTwice(func() error { return d.haltOnce(false) })
}

// switchOff switches the torque off at the servos that must not have any: they may not have
// received the command of a failed Arm.
func (d *Device) switchOff(deadline int64) error {
	p := d.data[:0]
	for i := range d.servos {
		if s := &d.servos[i]; !s.torque {
			p = append(p, s.id, 0)
		}
	}
	if len(p) == 0 {
		return nil
	}
	return d.bus.SyncWrite(regTorque, 1, p, deadline)
}

// verify compares torque, and the goals of the servos with torque, with the latest read.
func (d *Device) verify(goals bool) error {
	return d.bus.Verify(func(i int, data []byte) bool {
		s := &d.servos[i]
		return s.holds(data, goals && s.torque, s.torque)
	})
}

// holds compares the block of torque and goals with the written one.
func (s *servo) holds(data []byte, goal, torque bool) bool {
	offset := goalOffset
	if s.wheel {
		offset = speedOffset
	}
	return data[0] == boolByte(torque) && (!goal || signed(data[offset:]) == s.goal)
}
