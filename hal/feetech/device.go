package feetech

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"optibfm/hal"
	"optibfm/hal/serial"
	"optibfm/hal/servobus"
)

// Registers of the STS series (memory table of the STS3215).
const (
	regModel       = 3  // 2 bytes
	regReturnDelay = 7  // 1 byte, 2 µs
	regLimits      = 9  // least and greatest angle, 2 bytes each; both 0: many turns
	regMode        = 33 // 0 position, 1 velocity
	regTorque      = 40
	regGoal        = 42 // position 2, time 2, velocity 2
	regGoalSpeed   = 46
	regPresent     = 56 // position 2, velocity 2, load 2, voltage 1, heat 1, 1, status 1, moving 1, 2, current 2

	goalSize    = 6
	presentSize = 15
	holdSize    = regGoal + goalSize - regTorque // torque and all goals in one block
	currentAt   = 13
	goalAt      = regGoal - regTorque
	speedAt     = regGoalSpeed - regTorque
)

const (
	stepsPerTurn   = 4096
	middle         = 2048
	radPerStep     = 2 * math.Pi / stepsPerTurn
	amperePerUnit  = 0.0065
	mostMagnitude  = 1<<15 - 1
	manyTurns      = 30_719 // steps of a goal, each way
	delayUnit      = 2 * time.Microsecond
	statusFaults   = 0x3F // voltage, sensor, heat, current, angle, overload
	openingTimeout = 30 * time.Millisecond
)

// models that have these registers.
var models = map[uint16]string{777: "STS3215", 2825: "STS3250"}

// Device is a chain of servos. It implements hal.Device and hal.Counting; it is
// no hal.Guarded, see the package documentation.
type Device struct {
	config  Config
	bus     *servobus.Bus
	servos  []servo
	wheels  int // servos in velocity mode
	inputs  []hal.Signal
	outputs []hal.Signal
	live    bool   // the torque is on, so that goals are sent
	goals   bool   // there are goals
	data    []byte // of a sync write

	errNotFinite error
}

// servo is what the driver knows of one.
type servo struct {
	Servo
	id        byte
	wheel     bool
	low, high int // limits of its goal, steps or steps/s
	goal      int
	torque    bool // when it was met
	errFault  error
}

// Open opens the port, finds every servo and checks model, mode and return delay,
// until ctx ends. It writes nothing. It takes up to some tens of milliseconds a servo.
func Open(ctx context.Context, c Config) (*Device, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	port, err := serial.Open(c.Port)
	if err != nil {
		return nil, fmt.Errorf("feetech: %w", err)
	}
	defer port.Interrupt(ctx)()
	d := newDevice(c, port)
	if err := d.meetAll(); err != nil {
		_ = port.Close()
		return nil, err
	}
	return d, nil
}

// newDevice knows of its servos what the configuration says.
func newDevice(c Config, port *serial.Port) *Device {
	members := make([]servobus.Member, len(c.Servos))
	for i, s := range c.Servos {
		members[i] = servobus.Member{Name: s.Name, ID: byte(s.ID)}
	}
	d := &Device{
		config: c, bus: servobus.New("feetech", port, newProtocol(len(members)), members),
		inputs: c.Inputs(), outputs: c.Outputs(), servos: make([]servo, len(members)), data: make([]byte, 0, len(members)*(1+goalSize)),
		errNotFinite: fmt.Errorf("feetech: %s: an output is not finite: guard the action", c.Port.Path),
	}
	for i, servo := range c.Servos {
		s := &d.servos[i]
		s.Servo, s.id, s.wheel = servo, byte(servo.ID), servo.mode() == Velocity
		s.limit(make([]byte, 4))
		s.errFault = fmt.Errorf("%s: %w (voltage, sensor, heat, current, angle or overload, see register 65): mend the cause, then arm again", s.where(), hal.ErrDevice)
	}
	d.bus.SetTimeout(max(openingTimeout, c.wanted()) + c.Port.WireTime(2*leastSize+presentSize))
	return d
}

func (s *servo) where() string { return fmt.Sprintf("feetech: %q (ID %d)", s.Name, s.ID) }

// meetAll meets every servo, and sets the time-out that they need.
func (d *Device) meetAll() error {
	var slowest time.Duration
	for i := range d.servos {
		delay, err := d.meet(i)
		if err != nil {
			return err
		}
		slowest = max(slowest, delay)
	}
	timeout, err := d.config.timeout(slowest)
	if err != nil {
		return err
	}
	d.bus.SetTimeout(timeout)
	return nil
}

// meet finds servo i, checks that it is set up as this driver needs it, and learns
// its limits.
func (d *Device) meet(i int) (returnDelay time.Duration, err error) {
	s := &d.servos[i]
	where := s.where()
	if _, err := d.bus.Ask(s.id, AppendPacket(nil, Packet{ID: s.id, Code: Ping}), 0); err != nil {
		return 0, fmt.Errorf("%s: ping: %w: see power, ID and baud", where, err)
	}
	model, err := d.read(s.id, regModel, 2)
	if err != nil {
		return 0, fmt.Errorf("%s: read its model: %w", where, err)
	}
	if number := binary.LittleEndian.Uint16(model); models[number] == "" {
		return 0, fmt.Errorf("%s: its model number is not known here (%d): use an STS3215 or STS3250", where, number)
	}
	setting, err := d.read(s.id, regReturnDelay, 6) // a byte between, and the limits
	if err != nil {
		return 0, fmt.Errorf("%s: read its settings: %w", where, err)
	}
	mode, err := d.read(s.id, regMode, 1)
	if err != nil {
		return 0, fmt.Errorf("%s: read its mode: %w", where, err)
	}
	if want := boolByte(s.wheel); mode[0] != want {
		return 0, fmt.Errorf("%s: its mode is %d, not %d (%s): set register 33, or change mode", where, mode[0], want, s.Servo.mode())
	}
	torque, err := d.read(s.id, regTorque, 1)
	if err != nil {
		return 0, fmt.Errorf("%s: read its torque: %w", where, err)
	}
	s.torque = torque[0] != 0
	d.live = d.live || s.torque // left on: Halt must reach it
	s.limit(setting[regLimits-regReturnDelay:])
	if s.wheel {
		d.wheels++
	}
	return time.Duration(setting[0]) * delayUnit, nil
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// limit sets how far goals may go.
func (s *servo) limit(angles []byte) {
	s.low, s.high = signed(angles), signed(angles[2:])
	switch {
	case s.wheel:
		s.low, s.high = -mostMagnitude, mostMagnitude
	case s.low == 0 && s.high == 0:
		s.low, s.high = -manyTurns, manyTurns
	}
}

// read gives registers of one servo, while opening.
func (d *Device) read(id byte, register, size int) ([]byte, error) {
	return d.bus.Ask(id, AppendPacket(nil, Packet{ID: id, Code: ReadData, Params: []byte{byte(register), byte(size)}}), size)
}

// Inputs implements hal.Device.
func (d *Device) Inputs() []hal.Signal { return d.inputs }

// Outputs implements hal.Device.
func (d *Device) Outputs() []hal.Signal { return d.outputs }

// Faults implements hal.Counting. A servo that did not answer counts one timeout
// for each try.
func (d *Device) Faults() hal.Faults { return d.bus.Faults }

// Timeout is the limit of one transaction, T in the package documentation.
func (d *Device) Timeout() time.Duration { return d.bus.Timeout() }

// Bounds implements hal.Bounded: see the package documentation.
func (d *Device) Bounds() hal.Bounds { return boundsOf(d.Timeout()) }

func boundsOf(t time.Duration) hal.Bounds {
	return hal.Bounds{Sense: 2 * t, Act: t, Arm: 12 * t, Halt: 6 * t}
}

// Close implements hal.Device.
func (d *Device) Close() error { return d.bus.Port.Close() }

// Read implements hal.Device. The sample's time is that of the request.
func (d *Device) Read(dst []float64) (at int64, err error) {
	at, err = d.bus.Gather(regPresent, presentSize)
	if err != nil {
		return 0, err
	}
	for i := range d.servos {
		a := d.bus.Answer(i)
		dst[3*i] = float64(signed(a)-middle) * radPerStep
		dst[3*i+1] = float64(signed(a[2:])) * radPerStep
		dst[3*i+2] = float64(signed(a[currentAt:])) * amperePerUnit
		if d.bus.Alert(i) {
			d.bus.Faults.Device++
			err = d.servos[i].errFault
		}
	}
	return at, err
}

// Write implements hal.Device. Before Arm the goals are only kept.
func (d *Device) Write(outputs []float64) error {
	if err := d.setGoals(outputs); err != nil {
		return err
	}
	if !d.live {
		return nil
	}
	return d.sendGoals()
}

// setGoals converts outputs to steps, within the servos' limits.
func (d *Device) setGoals(outputs []float64) error {
	for _, v := range outputs {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return d.errNotFinite
		}
	}
	for i, v := range outputs {
		d.servos[i].aim(v)
	}
	d.goals = true
	return nil
}

func (s *servo) aim(output float64) {
	steps := math.Round(output / radPerStep)
	if !s.wheel {
		steps += middle
	}
	s.goal = int(min(max(steps, float64(s.low)), float64(s.high)))
}

// appendGoal appends what is written to the servo's goal: position, time 0 and
// velocity 0 (as fast as it can), or the velocity.
func (s *servo) appendGoal(dst []byte) []byte {
	if dst = appendSigned(dst, s.goal); s.wheel {
		return dst
	}
	return append(dst, 0, 0, 0, 0)
}

// sendGoals is one sync write for each mode in use.
func (d *Device) sendGoals() error {
	deadline := d.bus.Deadline()
	if d.wheels < len(d.servos) {
		p := d.data[:0]
		for i := range d.servos {
			if s := &d.servos[i]; !s.wheel {
				p = s.appendGoal(append(p, s.id))
			}
		}
		if err := d.bus.SyncWrite(regGoal, goalSize, p, deadline); err != nil {
			return err
		}
	}
	if d.wheels == 0 {
		return nil
	}
	p := d.data[:0]
	for i := range d.servos {
		if s := &d.servos[i]; s.wheel {
			p = s.appendGoal(append(p, s.id))
		}
	}
	return d.bus.SyncWrite(regGoalSpeed, 2, p, deadline)
}

// Arm implements hal.Device: it opens a lost port again, refuses servos that report
// a fault, sends the goals of the last Write (before any: the present positions, and
// no velocity), switches the torque on, and reads all of that back. Where it fails, it
// leaves the torque off.
func (d *Device) Arm() error {
	if d.bus.Port.Lost() {
		if err := d.bus.Port.Reopen(); err != nil {
			d.bus.Faults.Count(err)
			return fmt.Errorf("feetech: arm: %w", err)
		}
	}
	if err := d.arm(); err != nil {
		d.live = false
		_ = d.bus.SetAll(regTorque, 0)
		return fmt.Errorf("feetech: arm: %w", err)
	}
	d.live = true
	return nil
}

func (d *Device) arm() error {
	if _, err := d.bus.Gather(regPresent, presentSize); err != nil {
		return err
	}
	for i := range d.servos {
		s := &d.servos[i]
		if d.bus.Alert(i) {
			d.bus.Faults.Device++
			return s.errFault
		}
		if d.goals {
			continue
		}
		s.goal = 0
		if !s.wheel {
			s.goal = min(max(signed(d.bus.Answer(i)), s.low), s.high)
		}
	}
	d.goals = true
	if err := d.sendGoals(); err != nil {
		return err
	}
	if err := d.bus.SetAll(regTorque, 1); err != nil {
		return err
	}
	if _, err := d.bus.Gather(regTorque, holdSize); err != nil {
		return err
	}
	return d.confirm(true, true)
}

// Halt implements hal.Device. It returns the error of a servo that does not confirm;
// every other one has still been commanded, twice.
func (d *Device) Halt(failsafe []float64) error {
	err := d.setGoals(failsafe)
	for try := range 2 {
		problem := d.tryToHalt(err == nil)
		if problem == nil {
			d.bus.Faults.Mended += uint64(try)
			return err
		}
		if try == 1 {
			return problem
		}
	}
	return err
}

func (d *Device) tryToHalt(goals bool) error {
	// Servos without torque get no goals: those could switch it on.
	goals = goals && d.live
	var err error
	if goals {
		err = d.sendGoals()
	}
	if d.config.HaltTorqueOff {
		d.live, goals = false, false // what is limp holds no goal
		err = d.bus.SetAll(regTorque, 0)
	}
	if err != nil {
		return err
	}
	if err := d.bus.GatherOnce(regTorque, holdSize); err != nil {
		return err
	}
	return d.confirm(goals, d.live)
}

// confirm compares what the servos hold with what was written.
func (d *Device) confirm(goals, torque bool) error {
	for i := range d.servos {
		if !d.servos[i].holds(d.bus.Answer(i), goals, torque) {
			return d.bus.Fail(i, hal.ErrDevice)
		}
	}
	return nil
}

// holds looks at the block of torque and goals.
func (s *servo) holds(held []byte, goal, torque bool) bool {
	at := goalAt
	if s.wheel {
		at = speedAt
	}
	return held[0] == boolByte(torque) && (!goal || signed(held[at:]) == s.goal)
}
