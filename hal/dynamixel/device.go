package dynamixel

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

// Device is a chain of servos. It implements hal.Device, hal.Guarded and
// hal.Counting.
type Device struct {
	config   Config
	bus      *servobus.Bus
	protocol *protocol2
	servos   []servo
	groups   []group
	inputs   []hal.Signal
	outputs  []hal.Signal
	watchdog byte
	armed    bool
	goals    bool   // there has been a Write, or Arm has made goals
	data     []byte // of a sync write

	errTripped, errNotFinite error
}

// servo is what the driver knows of one.
type servo struct {
	Servo
	id       byte
	model    model
	mode     mode
	perStep  float64 // of its goal
	low      int32   // limits of its goal
	high     int32
	goal     int32
	errAlert error
}

// group are servos of the same mode: one sync write.
type group struct {
	mode   mode
	member []int
}

// Open opens the port, finds every servo and checks model, mode, status return
// level, return delay and drive mode, until ctx ends. It writes nothing. It takes
// up to some tens of milliseconds a servo.
func Open(ctx context.Context, c Config) (*Device, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	port, err := serial.Open(c.Port)
	if err != nil {
		return nil, fmt.Errorf("dynamixel: %w", err)
	}
	defer port.Interrupt(ctx)()
	d, err := newDevice(c, port)
	if err == nil {
		err = d.meetAll()
	}
	if err != nil {
		_ = port.Close()
		return nil, err
	}
	return d, nil
}

// newDevice knows of its servos what the configuration says.
func newDevice(c Config, port *serial.Port) (*Device, error) {
	watchdog, err := c.watchdog()
	if err != nil {
		return nil, err
	}
	members := make([]servobus.Member, len(c.Servos))
	for i, s := range c.Servos {
		members[i] = servobus.Member{Name: s.Name, ID: byte(s.ID)}
	}
	protocol := newProtocol(len(members))
	d := &Device{
		config: c, bus: servobus.New("dynamixel", port, protocol, members), protocol: protocol, watchdog: watchdog,
		servos: make([]servo, len(members)), data: make([]byte, 0, len(members)*(1+4)),
		errTripped:   fmt.Errorf("dynamixel: %s: %w (silence longer than its deadman: the servos may have stopped by themselves): arm again", c.Port.Path, hal.ErrDevice),
		errNotFinite: fmt.Errorf("dynamixel: %s: an output is not finite: guard the action", c.Port.Path),
	}
	for i, servo := range c.Servos {
		s := &d.servos[i]
		s.Servo, s.id = servo, byte(servo.ID)
		s.errAlert = fmt.Errorf("%s: %w (overload, heat, voltage, shock or encoder, see register 70): mend the cause, then reboot the servo", s.where(), hal.ErrDevice)
		if s.mode, err = modeByName(servo.mode()); err != nil {
			return nil, err
		}
	}
	d.bus.SetTimeout(c.onTheLine(goalsSize, 510*time.Microsecond) + max(openingSlack, c.wanted())) // while opening, nothing is known of them
	return d, nil
}

func (s *servo) where() string { return fmt.Sprintf("dynamixel: %q (ID %d)", s.Name, s.ID) }

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
	d.name()
	return nil
}

// timeout is the limit of one transaction.
func (c Config) timeout(returnDelay time.Duration) (time.Duration, error) {
	line := c.onTheLine(goalsSize, returnDelay)
	if c.TimeoutMs == 0 {
		return line + defaultSlack, nil
	}
	wanted := c.wanted()
	if wanted < line+leastSlack {
		return 0, fmt.Errorf("dynamixel: timeout_ms: the answers do not fit (%v; on the line they take %v, of it %v return delay for each servo): raise it or baud, and set register 9 of the servos to 0",
			c.TimeoutMs, line, returnDelay)
	}
	return wanted, nil
}

// wanted is the limit that the configuration gives, 0 where it gives none.
func (c Config) wanted() time.Duration { return time.Duration(c.TimeoutMs * float64(time.Millisecond)) }

// meet finds servo i and checks that it is set up as this driver needs it.
func (d *Device) meet(i int) (returnDelay time.Duration, err error) {
	s := &d.servos[i]
	answer, err := d.bus.Ask(s.id, AppendPacket(nil, Packet{ID: s.id, Instruction: Ping}), 3)
	if err != nil {
		return 0, fmt.Errorf("dynamixel: %q (ID %d): ping: %w: see power, ID and baud", s.Name, s.ID, err)
	}
	if s.model, err = modelByNumber(binary.LittleEndian.Uint16(answer)); err != nil {
		return 0, fmt.Errorf("dynamixel: %q (ID %d): %w", s.Name, s.ID, err)
	}
	if s.Model != "" && s.Model != s.model.name {
		return 0, fmt.Errorf("dynamixel: %q (ID %d): it is a %s, the configuration says %s: see whether the IDs are swapped, or change model", s.Name, s.ID, s.model.name, s.Model)
	}
	if returnDelay, err = d.checkSettings(s); err != nil {
		return 0, fmt.Errorf("dynamixel: %q (ID %d, %s): %w", s.Name, s.ID, s.model.name, err)
	}
	return returnDelay, d.learnLimits(s)
}

// read gives size bytes of the registers of one servo, while opening.
func (d *Device) read(id byte, register, size int) ([]byte, error) {
	return d.bus.Ask(id, d.protocol.append(nil, id, ReadData, register, size, nil), size)
}

func (d *Device) checkSettings(s *servo) (returnDelay time.Duration, err error) {
	setting, err := d.read(s.id, regReturnDelay, 3) // and drive mode, operating mode
	if err != nil {
		return 0, fmt.Errorf("read its settings: %w", err)
	}
	delay, drive, operating := setting[0], setting[1], setting[2]
	if operating != s.mode.number {
		return 0, fmt.Errorf("its operating mode is %d, not %d (%s): set register 11, with the torque off, or change mode", operating, s.mode.number, s.mode.name)
	}
	if drive&driveTorqueByGoal != 0 {
		return 0, fmt.Errorf("its drive mode lets a goal switch the torque on (%#02x): clear bit 3 of register 10, goals are also sent while disarmed", drive)
	}
	level, err := d.read(s.id, regStatusReturn, 1)
	if err != nil {
		return 0, fmt.Errorf("read its status return level: %w: set register 68 to 2", err)
	}
	if level[0] != answersAll {
		return 0, fmt.Errorf("its status return level is %d: set register 68 to 2", level[0])
	}
	if s.mode.name == Current && s.model.ampere == 0 {
		return 0, fmt.Errorf("it has no current mode: choose another mode")
	}
	return time.Duration(float64(delay) * returnDelayUnit * float64(time.Second)), nil
}

// learnLimits reads the limits that the servo itself holds goals to.
func (d *Device) learnLimits(s *servo) error {
	limit, err := d.read(s.id, regLimits, limitsSize)
	if err != nil {
		return fmt.Errorf("dynamixel: %q (ID %d): read its limits: %w", s.Name, s.ID, err)
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

// name makes the signals and the groups.
func (d *Device) name() {
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

// Faults implements hal.Counting. A servo that did not answer counts one
// timeout for each try.
func (d *Device) Faults() hal.Faults { return d.bus.Faults }

// Deadman implements hal.Guarded.
func (d *Device) Deadman() time.Duration {
	if !d.armed {
		return 0
	}
	return time.Duration(d.watchdog) * watchdogUnit
}

// Timeout is the limit of one transaction, T in the package documentation.
func (d *Device) Timeout() time.Duration { return d.bus.Timeout() }

// Bounds implements hal.Bounded: see the package documentation.
func (d *Device) Bounds() hal.Bounds { return boundsOf(d.Timeout()) }

func boundsOf(t time.Duration) hal.Bounds {
	return hal.Bounds{Sense: 2 * t, Act: t, Arm: 14 * t, Halt: 6 * t}
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
		s := &d.servos[i]
		a := d.bus.Answer(i)
		effort := s.model.ampere
		if effort == 0 {
			effort = 1.0 / fullLoad
		}
		dst[3*i] = float64(int32(binary.LittleEndian.Uint32(a[6:]))-middle) * radPerStep
		dst[3*i+1] = float64(int32(binary.LittleEndian.Uint32(a[2:]))) * radPerSecond
		dst[3*i+2] = float64(int16(binary.LittleEndian.Uint16(a))) * effort
		if d.bus.Alert(i) {
			d.bus.Faults.Device++
			err = s.errAlert
		}
	}
	return at, err
}

// Write implements hal.Device.
func (d *Device) Write(outputs []float64) error {
	if d.bus.Tripped() {
		d.bus.Faults.Device++
		return d.errTripped
	}
	if err := d.setGoals(outputs); err != nil {
		return err
	}
	return d.sendGoals()
}

// setGoals converts outputs to the servos' units, within their limits.
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
	step := math.Round(output/s.perStep) + float64(s.mode.zero)
	s.goal = int32(min(max(step, float64(s.low)), float64(s.high)))
}

// appendGoal appends what is written to the servo's goal.
func (s *servo) appendGoal(dst []byte) []byte {
	if s.mode.size == 2 {
		return binary.LittleEndian.AppendUint16(dst, uint16(s.goal))
	}
	return binary.LittleEndian.AppendUint32(dst, uint32(s.goal))
}

func (d *Device) sendGoals() error {
	deadline := d.bus.Deadline()
	for i := range d.groups {
		if err := d.sendGroup(&d.groups[i], deadline); err != nil {
			return err
		}
	}
	return nil
}

func (d *Device) sendGroup(g *group, deadline int64) error {
	p := d.data[:0]
	for _, i := range g.member {
		s := &d.servos[i]
		p = s.appendGoal(append(p, s.id))
	}
	return d.bus.SyncWrite(g.mode.goal, g.mode.size, p, deadline)
}
