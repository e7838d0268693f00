package dynamixel

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"optibfm/hal"
	"optibfm/hal/serial"
	"optibfm/hal/servobus"
)

// Device is a chain of servos. It implements hal.Device, hal.Relaxer, hal.DeadmanTimer and
// hal.FaultCounter.
type Device struct {
	config   Config
	bus      *servobus.Bus
	protocol *protocol2
	servos   []servo
	groups   []group
	inputs   []hal.Signal
	outputs  []hal.Signal
	watchdog byte
	active   bool   // since Arm or Halt: Write sends goals
	armed    bool   // since Arm: Write also sends positions
	readAt   int64  // time of the latest Read since Arm; 0: none
	data     []byte // payload of a sync write

	errTripped error
}

// servo is the driver's state of one servo.
type servo struct {
	Servo
	id        byte
	model     model
	mode      mode
	perStep   float64 // unit of its goal per step
	low, high int32   // limits of its goal
	goal      int32
	held      bool  // goal is the position at the first Halt since Open, Arm or Relax
	lost      bool  // Halt does not know where it is: it keeps its goal
	last      int32 // position of the latest Read since Arm
	jumped    bool  // the position changed by turns since Arm
	errAlert  error
	errJumped error
}

// group lists the servos of one mode: one sync write.
type group struct {
	mode    mode
	members []int
}

// Open opens the port, finds every servo and checks its model, mode, status return level, return
// delay and drive mode. It writes nothing. It takes up to some tens of milliseconds per servo, or
// until ctx ends.
func Open(ctx context.Context, c Config) (*Device, error) {
	d, err := newDevice(c)
	if err != nil {
		return nil, err
	}
	if err := d.bus.Probe(ctx, d.probe, c.timeout); err != nil {
		return nil, err
	}
	d.makeSignals()
	return d, nil
}

// newDevice opens the port. It assumes that the servos are set up as configured.
func newDevice(c Config) (*Device, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	watchdog, err := c.watchdog()
	if err != nil {
		return nil, err
	}
	port, err := serial.Open(c.Port)
	if err != nil {
		return nil, fmt.Errorf("dynamixel: %w", err)
	}
	n := len(c.Servos)
	d := &Device{
		config: c, protocol: newProtocol(n), watchdog: watchdog,
		servos: make([]servo, n), data: make([]byte, 0, n*(1+4)),
		errTripped: fmt.Errorf("dynamixel: %s: %w (silence longer than deadman_ms, servos may have stopped); arm again",
			c.Port.Path, hal.ErrDevice),
	}
	members := make([]servobus.Servo, n)
	for i, config := range c.Servos {
		s := &d.servos[i]
		s.Servo, s.id = config, byte(config.ID)
		s.mode, _ = modeByName(config.mode()) // checked by Validate
		s.errAlert = fmt.Errorf("%s: %w (overload, temperature, voltage, shock or encoder, see register 70); "+
			"remove the cause, then power-cycle the servo", s.prefix(), hal.ErrDevice)
		s.errJumped = fmt.Errorf("%s: %w (its position jumped: it restarted and forgot its full turns); "+
			"check its power and position, then arm again", s.prefix(), hal.ErrDevice)
		members[i] = servobus.Servo{Name: config.Name, ID: s.id}
	}
	d.bus = servobus.New("dynamixel", port, d.protocol, members)
	const slowest = 510 * time.Microsecond // the longest return delay
	d.bus.SetTimeout(c.onTheLine(goalsSize, slowest) + max(openingSlack, servobus.Milliseconds(c.TimeoutMs)))
	return d, nil
}

// prefix begins the errors about a servo.
func (s *servo) prefix() string { return fmt.Sprintf("dynamixel: %q (ID %d)", s.Name, s.ID) }

// probe finds servo i, checks its setup and reads its limits.
func (d *Device) probe(i int) (returnDelay time.Duration, err error) {
	s := &d.servos[i]
	answer, err := d.bus.Ping(s.id, AppendPacket(nil, Packet{ID: s.id, Instruction: Ping}), 3)
	if err != nil {
		return 0, fmt.Errorf("%s: ping: %w; check power, ID and baud", s.prefix(), err)
	}
	if s.model, err = modelByNumber(binary.LittleEndian.Uint16(answer)); err != nil {
		return 0, fmt.Errorf("%s: %w", s.prefix(), err)
	}
	if s.Model != "" && s.Model != s.model.name {
		return 0, fmt.Errorf("%s: the servo is a %s, the configuration has %s; check the IDs, or change model",
			s.prefix(), s.model.name, s.Model)
	}
	if returnDelay, err = d.checkSetup(s); err != nil {
		return 0, fmt.Errorf("%s, a %s: %w", s.prefix(), s.model.name, err)
	}
	if err := d.readLimits(s); err != nil {
		return 0, fmt.Errorf("%s: read limits: %w", s.prefix(), err)
	}
	return returnDelay, nil
}

// read reads registers of one servo, while opening.
func (d *Device) read(id byte, register, size int) ([]byte, error) {
	return d.bus.Read(id, register, size)
}

func (d *Device) checkSetup(s *servo) (returnDelay time.Duration, err error) {
	setup, err := d.read(s.id, regReturnDelay, 3) // and drive mode, operating mode
	if err != nil {
		return 0, fmt.Errorf("read settings: %w", err)
	}
	delay, drive, operating := setup[0], setup[1], setup[2]
	if operating != s.mode.number {
		return 0, fmt.Errorf("its operating mode is %d, not %d (%s); "+
			"set register 11 with the torque off, or change mode", operating, s.mode.number, s.mode.name)
	}
	if drive&driveTorqueByGoal != 0 {
		return 0, fmt.Errorf("a goal switches its torque on (drive mode %#02x), and disarmed servos receive goals; "+
			"clear bit 3 of register 10", drive)
	}
	level, err := d.read(s.id, regStatusReturn, 1)
	if err != nil {
		return 0, fmt.Errorf("read status return level: %w; set register 68 to 2", err)
	}
	if level[0] != answersAll {
		return 0, fmt.Errorf("its status return level is %d; set register 68 to 2", level[0])
	}
	if s.mode.name == Current && s.model.ampere == 0 {
		return 0, fmt.Errorf("it has no current mode; change mode")
	}
	return time.Duration(float64(delay) * returnDelayUnit * float64(time.Second)), nil
}

// readLimits reads the limits that the servo enforces.
func (d *Device) readLimits(s *servo) error {
	limit, err := d.read(s.id, regLimits, limitsSize)
	if err != nil {
		return err
	}
	s.perStep = s.mode.perStep
	switch s.mode.name {
	case PWM:
		s.high = int32(binary.LittleEndian.Uint16(limit))
	case Current:
		s.high, s.perStep = int32(binary.LittleEndian.Uint16(limit[2:])), s.model.ampere
	case Velocity:
		s.high = int32(binary.LittleEndian.Uint32(limit[8:]))
	case Position:
		s.high, s.low = int32(binary.LittleEndian.Uint32(limit[12:])), int32(binary.LittleEndian.Uint32(limit[16:]))
		return nil
	case ExtendedPosition:
		s.high = maxExtended
	}
	s.low = -s.high
	return nil
}

func (d *Device) makeSignals() {
	for i := range d.servos {
		s := &d.servos[i]
		d.inputs = append(d.inputs, s.inputs(s.model.ampere > 0)...)
	}
	d.outputs = d.config.Outputs()
	for _, m := range modes {
		var members []int
		for i := range d.servos {
			if d.servos[i].mode.name == m.name {
				members = append(members, i)
			}
		}
		if members != nil {
			d.groups = append(d.groups, group{m, members})
		}
	}
}

// Inputs implements hal.Device.
func (d *Device) Inputs() []hal.Signal { return d.inputs }

// Outputs implements hal.Device.
func (d *Device) Outputs() []hal.Signal { return d.outputs }

// Faults implements hal.FaultCounter. Each missing answer counts as one timeout.
func (d *Device) Faults() hal.Faults { return d.bus.Faults }

// Deadman implements hal.DeadmanTimer.
func (d *Device) Deadman() time.Duration {
	if !d.armed {
		return 0
	}
	return time.Duration(d.watchdog) * watchdogUnit
}

// Timeout returns the time limit of one transaction, T in the package documentation.
func (d *Device) Timeout() time.Duration { return d.bus.Timeout() }

// Bounds implements hal.Bounder: see the package documentation.
func (d *Device) Bounds() hal.Bounds { return boundsOf(d.Timeout()) }

func boundsOf(t time.Duration) hal.Bounds {
	return hal.Bounds{Sense: 2 * t, Act: t, Arm: 14 * t, Halt: 7 * t}
}

// Close implements hal.Device.
func (d *Device) Close() error { return d.bus.Port.Close() }

// Read implements hal.Device. The time of the sample is the time of the request.
func (d *Device) Read(dst []float64) (at int64, err error) {
	at, err = d.bus.SyncRead(regPresent, presentSize)
	if err != nil {
		return 0, err
	}
	recent := d.armed && d.readAt != 0 && at-d.readAt < int64(longestGap)
	d.readAt = at
	for i := range d.servos {
		s := &d.servos[i]
		a := d.bus.Data(i)
		step := int64(position(a)) - int64(s.last)
		s.jumped, s.last = s.jumped || recent && max(step, -step) > stepsPerTurn/2, position(a)
		effort := cmp.Or(s.model.ampere, 1.0/fullLoad)
		dst[3*i] = radians(position(a))
		dst[3*i+1] = float64(int32(binary.LittleEndian.Uint32(a[2:]))) * radPerSecond
		dst[3*i+2] = float64(int16(binary.LittleEndian.Uint16(a))) * effort
		if d.bus.Alert(i) {
			d.bus.Faults.Device++
			err = s.errAlert
		} else if d.armed && s.jumped {
			d.bus.Faults.Device++
			err = s.errJumped
		}
	}
	return at, err
}

// longestGap is the longest time between samples within which no servo moves by half a turn: they
// reach about 11 rad/s.
const longestGap = 200 * time.Millisecond

// position returns the position in steps of an answer from regPresent.
func position(answer []byte) int32 { return int32(binary.LittleEndian.Uint32(answer[6:])) }

// radians converts a position in steps.
func radians(steps int32) float64 { return float64(steps-middle) * radPerStep }

// Write implements hal.Device. Servos in a position mode receive goals only between Arm and Halt.
// Before the first Arm or Halt, and after Relax, Write only stores the goals.
func (d *Device) Write(outputs []float64) error {
	if d.bus.SilenceExceeded() {
		d.bus.Faults.Device++
		return d.errTripped
	}
	if err := d.setGoals(outputs); err != nil || !d.active {
		return err
	}
	return d.writeGoals(d.armed, d.bus.Deadline())
}

// setGoals converts outputs to the servos' units, within their limits.
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
	step := math.Round(output/s.perStep) + float64(s.mode.zero)
	s.goal = int32(min(max(step, float64(s.low)), float64(s.high)))
	s.held, s.lost = false, false
}

// appendGoal appends the goal as it is written to the servo.
func (s *servo) appendGoal(dst []byte) []byte {
	if s.mode.size == 2 {
		return binary.LittleEndian.AppendUint16(dst, uint16(s.goal))
	}
	return binary.LittleEndian.AppendUint32(dst, uint32(s.goal))
}

// writeGoals writes the goals, one sync write for each mode in use. positions selects whether
// servos in a position mode receive theirs.
func (d *Device) writeGoals(positions bool, deadline int64) error {
	var first error // the other groups get their goals also after an error
	for _, g := range d.groups {
		if g.mode.goal == regGoalPosition && !positions {
			continue
		}
		p := d.data[:0]
		for _, i := range g.members {
			if s := &d.servos[i]; !s.lost {
				p = s.appendGoal(append(p, s.id))
			}
		}
		if len(p) == 0 {
			continue
		}
		if err := d.bus.SyncWrite(g.mode.goal, g.mode.size, p, deadline); err != nil && first == nil {
			first = err
		}
	}
	return first
}
