package simulator

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"time"

	"optibfm/hal/monotonic"
	"optibfm/hal/unitree"
	"optibfm/hal/unitree/dds"
	"optibfm/hal/unitree/idl"
)

// Period is the time between two states.
const Period = 2 * time.Millisecond

// Command holds the commands of the motors, one number for each joint.
type Command struct {
	Q, Dq, Tau, Kp, Kd []float64
}

// State holds the measurements of the sensors.
type State struct {
	Q, Dq, Tau    []float64  // rad, rad/s, N·m
	Quaternion    [4]float64 // w x y z
	Gyro          [3]float64 // rad/s
	Accelerometer [3]float64 // m/s²
	Foot          [4]float64
}

// Physics moves the robot.
type Physics interface {
	// Step simulates one period with a command, and writes the state.
	Step(*Command, *State) error
}

// Faults are the faults that the robot simulates. Temperature and battery are not faults by
// themselves.
type Faults struct {
	Silent      bool // it sends no state
	Frozen      bool // its tick stands still
	BadCRC      bool
	Quirks      bool // crc and tick are 0, as unitree_mujoco sends them
	ModeMachine uint8
	LosesJoint  int // motor that loses packets (Go2) or reports a fault (G1); -1: none
	Temperature float64
	HotJoint    int // motor with this temperature
	Battery     int
	Fallen      bool
	NaN         bool
	Buttons     unitree.Buttons
	RemoteOff   bool
}

// Healthy are no faults: a charged robot with the remote control on.
func Healthy() Faults { return Faults{LosesJoint: -1, Temperature: 35, Battery: 80, ModeMachine: 5} }

// Robot is the simulated robot.
type Robot struct {
	physics Physics
	network network
	command Command
	state   State
	tick    uint32
	lost    uint32

	mu       sync.Mutex
	faults   Faults
	obeyed   uint64 // commands
	rejected uint64 // commands with a wrong checksum
}

// network sends and receives the messages of a model.
type network interface {
	send(r *Robot, f Faults) error
	receive(r *Robot, f Faults) error
}

// New joins a network with a simulated robot.
func New(p *dds.Participant, model string, physics Physics) (*Robot, error) {
	n := len(unitree.Joints(model))
	if n == 0 {
		return nil, fmt.Errorf("simulator: unknown model %q; use %s or %s", model, unitree.Go2, unitree.G1)
	}
	r := &Robot{physics: physics, faults: Healthy()}
	numbers := make([]float64, 8*n)
	for _, list := range []*[]float64{
		&r.command.Q, &r.command.Dq, &r.command.Tau, &r.command.Kp, &r.command.Kd, &r.state.Q, &r.state.Dq, &r.state.Tau,
	} {
		*list, numbers = numbers[:n:n], numbers[n:]
	}
	var err error
	r.network, err = newNetwork(p, model)
	return r, err
}

// Set changes the faults of the robot.
func (r *Robot) Set(change func(*Faults)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.faults)
}

// Counts returns the numbers of commands that the robot obeyed and that had a wrong checksum.
func (r *Robot) Counts() (obeyed, rejected uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.obeyed, r.rejected
}

func (r *Robot) current() Faults {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.faults
}

// Run answers commands with states until ctx ends. It keeps its period, and skips periods that it
// missed.
func (r *Robot) Run(ctx context.Context) error {
	for next := monotonic.Now(); ctx.Err() == nil; {
		if err := r.step(); err != nil {
			return err
		}
		next += int64(Period)
		if pause := next - monotonic.Now(); pause > 0 {
			time.Sleep(time.Duration(pause))
		} else {
			next = monotonic.Now()
		}
	}
	return nil
}

func (r *Robot) step() error {
	f := r.current()
	if err := r.network.receive(r, f); err != nil {
		return err
	}
	if err := r.physics.Step(&r.command, &r.state); err != nil {
		return fmt.Errorf("simulator: physics: %w", err)
	}
	if !f.Frozen {
		r.tick += uint32(Period / time.Millisecond)
	}
	if f.LosesJoint >= 0 {
		r.lost += 10
	}
	if f.Silent {
		return nil
	}
	return r.network.send(r, f)
}

func (r *Robot) count(sound bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if sound {
		r.obeyed++
	} else {
		r.rejected++
	}
}

// remote writes the state of the remote control.
func (f *Faults) remote(b *[idl.RemoteSize]uint8) {
	*b = [idl.RemoteSize]uint8{}
	if f.RemoteOff {
		return
	}
	b[0], b[1] = 0x55, 0x51
	binary.LittleEndian.PutUint16(b[2:], uint16(f.Buttons))
}

// imu writes the body's orientation and motion.
func (f *Faults) imu(s *State, quaternion *[4]float32, gyro, acc *[3]float32) {
	for i, v := range s.Quaternion {
		quaternion[i] = float32(v)
	}
	if f.Fallen {
		*quaternion = [4]float32{0.70710677, 0.70710677, 0, 0}
	}
	for i := range 3 {
		gyro[i], acc[i] = float32(s.Gyro[i]), float32(s.Accelerometer[i])
	}
	if f.NaN {
		gyro[0] = float32(math.NaN())
	}
}

func (f *Faults) temperature(joint int) float64 {
	if joint == f.HotJoint {
		return f.Temperature
	}
	return 35
}
