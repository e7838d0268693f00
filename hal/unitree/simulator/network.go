package simulator

import (
	"optibfm/hal/unitree"
	"optibfm/hal/unitree/dds"
	"optibfm/hal/unitree/idl"
)

func newNetwork(p *dds.Participant, model string) (network, error) {
	const depth = 1
	if model == unitree.Go2 {
		n := &go2{stateSum: idl.NewSummer[idl.Go2State](), commandSum: idl.NewSummer[idl.Go2Command]()}
		var err error
		if n.states, err = dds.NewWriter[idl.Go2State](p, "rt/lowstate", idl.Go2StateType); err != nil {
			return nil, err
		}
		n.commands, err = dds.NewReader[idl.Go2Command](p, "rt/lowcmd", idl.Go2CommandType, depth)
		return n, err
	}
	n := &g1{stateSum: idl.NewSummer[idl.G1State](), commandSum: idl.NewSummer[idl.G1Command]()}
	var err error
	if n.states, err = dds.NewWriter[idl.G1State](p, "rt/lowstate", idl.G1StateType); err != nil {
		return nil, err
	}
	n.commands, err = dds.NewReader[idl.G1Command](p, "rt/lowcmd", idl.G1CommandType, depth)
	return n, err
}

type go2 struct {
	states     *dds.Writer[idl.Go2State]
	commands   *dds.Reader[idl.Go2Command]
	stateSum   *idl.Summer[idl.Go2State]
	commandSum *idl.Summer[idl.Go2Command]
}

func (n *go2) receive(r *Robot, _ Faults) error {
	m, _, err := n.commands.Take()
	if err != nil || m == nil {
		return err
	}
	sound := n.commandSum.Sum(m) == m.CRC && m.Head == [2]uint8{0xFE, 0xEF} && m.LevelFlag == 0xFF
	if r.count(sound); !sound { // the robot ignores it without a word
		return nil
	}
	for i := range r.command.Q {
		c := &m.Motor[i]
		r.command.set(i, c.Mode, c.Q, c.Dq, c.Tau, c.Kp, c.Kd)
	}
	return nil
}

// set sets the command of a motor, which only follows it in mode 1.
func (c *Command) set(i int, mode uint8, q, dq, tau, kp, kd float32) {
	if mode != idl.MotorEnabled {
		q, dq, tau, kp, kd = 0, 0, 0, 0, 0
	}
	c.Q[i], c.Dq[i], c.Tau[i], c.Kp[i], c.Kd[i] = float64(q), float64(dq), float64(tau), float64(kp), float64(kd)
}

func (n *go2) send(r *Robot, f Faults) error {
	m, s := n.states.Message(), &r.state
	m.Head, m.LevelFlag, m.Tick = [2]uint8{0xFE, 0xEF}, 0xFF, r.tick
	for i := range s.Q {
		j := &m.Motor[i]
		j.Mode, j.Q, j.Dq, j.TauEst = idl.MotorEnabled, float32(s.Q[i]), float32(s.Dq[i]), float32(s.Tau[i])
		j.Temperature = uint8(int8(f.temperature(i)))
		if i == f.LosesJoint {
			j.Lost = r.lost
		}
	}
	f.imu(s, &m.IMU.Quaternion, &m.IMU.Gyroscope, &m.IMU.Accelerometer)
	for i, v := range s.Foot {
		m.FootForce[i] = int16(v)
	}
	m.Battery.SOC, m.PowerV = uint8(f.Battery), 29
	f.remote(&m.WirelessRemote)
	m.CRC = n.stateSum.Sum(m)
	if f.BadCRC {
		m.CRC++
	}
	if f.Quirks {
		m.CRC, m.Tick = 0, 0
	}
	return n.states.Write()
}

type g1 struct {
	states     *dds.Writer[idl.G1State]
	commands   *dds.Reader[idl.G1Command]
	stateSum   *idl.Summer[idl.G1State]
	commandSum *idl.Summer[idl.G1Command]
}

func (n *g1) receive(r *Robot, f Faults) error {
	m, _, err := n.commands.Take()
	if err != nil || m == nil {
		return err
	}
	sound := n.commandSum.Sum(m) == m.CRC && m.ModeMachine == f.ModeMachine && m.ModePR == 0
	if r.count(sound); !sound {
		return nil
	}
	for i := range r.command.Q {
		c := &m.Motor[i]
		r.command.set(i, c.Mode, c.Q, c.Dq, c.Tau, c.Kp, c.Kd)
	}
	return nil
}

func (n *g1) send(r *Robot, f Faults) error {
	m, s := n.states.Message(), &r.state
	m.ModeMachine, m.Tick = f.ModeMachine, r.tick
	for i := range s.Q {
		j := &m.Motor[i]
		j.Mode, j.Q, j.Dq, j.TauEst, j.Voltage = idl.MotorEnabled, float32(s.Q[i]), float32(s.Dq[i]), float32(s.Tau[i]), 48
		j.Temperature = [2]int16{30, int16(f.temperature(i))}
		j.State = 0
		if i == f.LosesJoint {
			j.State = 1
		}
	}
	f.imu(s, &m.IMU.Quaternion, &m.IMU.Gyroscope, &m.IMU.Accelerometer)
	f.remote(&m.WirelessRemote)
	m.CRC = n.stateSum.Sum(m)
	if f.BadCRC {
		m.CRC++
	}
	if f.Quirks {
		m.CRC, m.Tick = 0, 0
	}
	return n.states.Write()
}
