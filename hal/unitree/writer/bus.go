package writer

import (
	"optibfm/hal/unitree"
	"optibfm/hal/unitree/dds"
	"optibfm/hal/unitree/idl"
)

// The topics of the robots.
const (
	TopicCommand = "rt/lowcmd"
	TopicState   = "rt/lowstate"
)

// reading is a state of a robot, of either model.
type reading struct {
	sound       bool // the checksum is right
	publisher   uint64
	unsummed    bool // crc and tick are 0, as a simulator sends them
	tick        uint32
	modeMachine uint8
	battery     int32 // percent; -1: not measured
	q, dq, tau  [unitree.MaxJoints]float32
	temperature [unitree.MaxJoints]float32
	trouble     [unitree.MaxJoints]uint32 // G1: the fault of the motor; Go2: packets that it lost since its start
	missing     [unitree.MaxJoints]bool   // all values of the motor are zero
	quaternion  [4]float32
	gyro, acc   [3]float32
	foot        [4]float32
	remote      [idl.RemoteSize]uint8
}

// output is a command.
type output struct {
	modeMachine uint8
	q, kp, kd   [unitree.MaxJoints]float32
}

// bus is the robot's network.
type bus interface {
	// take reads the oldest state that was not read. ok is false without one.
	take(*reading) (ok bool, err error)
	write(*output) error
	// others counts the other writers of commands. sent reports whether one of them has sent a
	// command since the last call. look also looks for new ones; otherwise the count is the last
	// one.
	others(look bool) (count int, sent bool, err error)
	// readers counts the readers of commands that are not ours.
	readers() int
}

// link is the DDS part of a bus, for the messages of a model.
type link[S, C idl.Message] struct {
	states     *dds.Reader[S]
	commands   *dds.Writer[C]
	overheard  *dds.Reader[C] // nil for a standby writer, as commands are for a check
	stateSum   *idl.Summer[S]
	commandSum *idl.Summer[C]

	ours    func(dds.GUID) bool
	writers []dds.WriterOf
	foreign int
}

// The numbers of commands and states that are kept between two cycles. A second robot's state must
// not replace that of the first, or the cycles would see only one of them.
const (
	commandDepth = 8
	stateDepth   = 4
)

// use is the way in which a process uses commands.
type use struct {
	write    bool                // an optibfm that runs takes even a silent writer for another program
	overhear bool                // those of others
	ours     func(dds.GUID) bool // participants whose commands are not of others
}

func newLink[S, C idl.Message](p *dds.Participant, state, command idl.Descriptor, u use) (*link[S, C], error) {
	l := &link[S, C]{stateSum: idl.NewSummer[S](), commandSum: idl.NewSummer[C](), ours: u.ours}
	var err error
	if l.states, err = dds.NewReader[S](p, TopicState, state, stateDepth); err != nil {
		return nil, err
	}
	if u.write {
		if l.commands, err = dds.NewWriter[C](p, TopicCommand, command); err != nil {
			return nil, err
		}
	}
	if u.overhear {
		l.overheard, err = dds.NewReader[C](p, TopicCommand, command, commandDepth)
	}
	l.writers = make([]dds.WriterOf, 0, 16)
	return l, err
}

func (l *link[S, C]) others(look bool) (count int, sent bool, err error) {
	if look {
		if err := l.findWriters(); err != nil {
			return 0, false, err
		}
	}
	for range 2 * commandDepth {
		m, writer, err := l.overheard.Take()
		if err != nil || m == nil {
			return l.foreign, sent, err
		}
		if l.isOurs(writer) {
			continue
		}
		if err := l.findWriters(); err != nil { // it may be new
			return 0, false, err
		}
		sent = sent || !l.isOurs(writer)
	}
	return l.foreign, sent, nil
}

func (l *link[S, C]) findWriters() (err error) {
	l.writers, err = l.overheard.Writers(l.writers[:0])
	l.foreign = 0
	for _, w := range l.writers {
		if !l.ours(w.Participant) {
			l.foreign++
		}
	}
	return err
}

func (l *link[S, C]) isOurs(handle uint64) bool {
	for _, w := range l.writers {
		if w.Handle == handle {
			return l.ours(w.Participant)
		}
	}
	return false
}

func (l *link[S, C]) readers() int {
	return max(0, l.commands.Readers()-1) // without that of the primary writer
}

// newBus joins the network of a robot.
func newBus(p *dds.Participant, model string, u use) (bus, error) {
	if model == unitree.Go2 {
		l, err := newLink[idl.Go2State, idl.Go2Command](p, idl.Go2StateType, idl.Go2CommandType, u)
		return &go2Bus{l}, err
	}
	l, err := newLink[idl.G1State, idl.G1Command](p, idl.G1StateType, idl.G1CommandType, u)
	return &g1Bus{l}, err
}

type go2Bus struct {
	*link[idl.Go2State, idl.Go2Command]
}

func (b *go2Bus) take(r *reading) (ok bool, err error) {
	m, publisher, err := b.states.Take()
	if err != nil || m == nil {
		return false, err
	}
	r.publisher, r.sound = publisher, b.stateSum.Sum(m) == m.CRC
	r.unsummed = m.CRC == 0 && m.Tick == 0
	r.tick, r.battery = m.Tick, int32(m.Battery.SOC)
	for i := range idl.Go2Joints {
		j := &m.Motor[i]
		r.q[i], r.dq[i], r.tau[i] = j.Q, j.Dq, j.TauEst
		r.temperature[i], r.trouble[i] = float32(int8(j.Temperature)), j.Lost
		r.missing[i] = j.Q == 0 && j.Dq == 0 && j.Temperature == 0
	}
	for i, f := range m.FootForce {
		r.foot[i] = float32(f)
	}
	r.quaternion, r.gyro, r.acc, r.remote = m.IMU.Quaternion, m.IMU.Gyroscope, m.IMU.Accelerometer, m.WirelessRemote
	return true, nil
}

func (b *go2Bus) write(o *output) error {
	m := b.commands.Message()
	m.Head, m.LevelFlag = [2]uint8{0xFE, 0xEF}, 0xFF
	for i := range idl.Go2Joints {
		c := &m.Motor[i]
		c.Mode, c.Q, c.Kp, c.Kd = idl.MotorEnabled, o.q[i], o.kp[i], o.kd[i]
	}
	m.CRC = b.commandSum.Sum(m)
	return b.commands.Write()
}

type g1Bus struct {
	*link[idl.G1State, idl.G1Command]
}

func (b *g1Bus) take(r *reading) (ok bool, err error) {
	m, publisher, err := b.states.Take()
	if err != nil || m == nil {
		return false, err
	}
	r.publisher, r.sound = publisher, b.stateSum.Sum(m) == m.CRC
	r.unsummed = m.CRC == 0 && m.Tick == 0
	r.tick, r.modeMachine, r.battery = m.Tick, m.ModeMachine, -1
	for i := range idl.G1Joints {
		j := &m.Motor[i]
		r.q[i], r.dq[i], r.tau[i] = j.Q, j.Dq, j.TauEst
		r.temperature[i], r.trouble[i] = float32(max(j.Temperature[0], j.Temperature[1])), j.State
		r.missing[i] = j.Q == 0 && j.Dq == 0 && j.Voltage == 0 && j.Temperature == [2]int16{}
	}
	r.quaternion, r.gyro, r.acc, r.remote = m.IMU.Quaternion, m.IMU.Gyroscope, m.IMU.Accelerometer, m.WirelessRemote
	return true, nil
}

func (b *g1Bus) write(o *output) error {
	m := b.commands.Message()
	m.ModeMachine = o.modeMachine // mode_pr is 0: pitch and roll
	for i := range idl.G1Joints {
		c := &m.Motor[i]
		c.Mode, c.Q, c.Kp, c.Kd = idl.MotorEnabled, o.q[i], o.kp[i], o.kd[i]
	}
	m.CRC = b.commandSum.Sum(m)
	return b.commands.Write()
}
