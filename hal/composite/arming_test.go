package composite_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"optibfm/controller"
	"optibfm/hal"
	"optibfm/hal/bridge"
	"optibfm/hal/composite"
	"optibfm/hal/dynamixel"
	"optibfm/hal/dynamixel/dynamixeltest"
	"optibfm/hal/feetech"
	"optibfm/hal/feetech/feetechtest"
	"optibfm/hal/haltest"
	"optibfm/hal/i2cbus/i2cbustest"
	"optibfm/hal/mcu"
	"optibfm/hal/mcu/mcutest"
	"optibfm/hal/mit"
	"optibfm/hal/mit/mittest"
	"optibfm/hal/monotonic"
	"optibfm/hal/pca9685"
	"optibfm/hal/serial"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
	"optibfm/tflite"
)

const (
	armingPeriod = 20 * time.Millisecond
	armingRate   = 0.2 // rad/s
	range_       = 2.5 // rad
)

// joint is a robot with one position channel, limp at a pose, and what its actuator is commanded.
type joint struct {
	robot hal.Robot
	goal  func() (at float64, on bool) // rad

	resolution float64 // of a goal, rad
	holds      bool    // a stop holds the joint where it is
}

// settled waits until the actuator has the expected goal: a device executes a command after it was
// sent. It returns what the actuator has after a second.
func (j joint) settled(expected float64) (goal float64, on bool) {
	for range 1000 {
		goal, on = j.goal()
		if !on || math.Abs(goal-expected) <= j.resolution {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return goal, on
}

// joints open a robot of each driver, limp at a pose in rad.
var joints = []struct {
	name       string
	resolution float64 // of a goal, rad
	holds      bool    // a stop holds the joint where it is
	open       func(t *testing.T, pose float64) joint
}{
	{"feetech", 2 * math.Pi / 4096, true, openFeetech},
	{"dynamixel", 2 * math.Pi / 4096, true, openDynamixel},
	{"mit", 25.0 / (1 << 16), true, openMIT},
	{"mcu", 1e-6, false, openBoard},
	{"pca9685 with an encoder on an mcu", 20_000.0 / 4096 / 400, false, openMixture},
	{"bridge", 1e-6, false, openBridge},
}

// TestAgent_ArmsEveryDriverWhereItsActuatorIs arms a limp joint at random poses, with a policy that
// wants the middle of its range, and reads back what the actuator is commanded in every tick.
func TestAgent_ArmsEveryDriverWhereItsActuatorIs(t *testing.T) {
	poses, ticks := 10, 50
	if testing.Short() {
		poses, ticks = 2, 5
	}
	for _, c := range joints {
		t.Run(c.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(11, 7))
			worst, jump, largest := 0.0, 0.0, 0.0
			for range poses {
				pose := range_ * (2*random.Float64() - 1)
				t.Run(fmt.Sprintf("%.3f", pose), func(t *testing.T) { // releases the devices
					j := c.open(t, pose)
					j.resolution, j.holds = c.resolution, c.holds
					first, change := armAndFollow(t, j, pose, ticks)
					if off := math.Abs(first - pose); off > jump {
						worst, jump = first, off
					}
					largest = max(largest, change)
				})
			}
			t.Logf("%s: first goal at most %.4f rad from the joint (%.3f); largest change in a period %.4f rad",
				c.name, jump, worst, largest)
			limit := armingRate*armingPeriod.Seconds() + 1.5*c.resolution
			if jump > limit || largest > limit {
				t.Errorf("a first goal is %.4f rad from the joint, a later one changes by %.4f, the limit is %.4f",
					jump, largest, limit)
			}
		})
	}
}

// armAndFollow arms a joint and returns its first goal and the largest change of a goal.
func armAndFollow(t *testing.T, j joint, pose float64, ticks int) (first, change float64) {
	t.Helper()
	agent := newArmingAgent(t, j.robot)
	tick := controller.NewTick(agent.Shape())
	last, armed := math.NaN(), false
	for k := range ticks {
		tick.Index, tick.Elapsed, tick.Flags, tick.Wake = uint64(k), min(uint64(k), 1), 0, monotonic.Now()
		fatal.If(t, agent.Step(tick))
		if k == 3 {
			fatal.If(t, agent.Arm(0))
		}
		expected := pose // Arm holds the joint
		if tick.Flags.Has(controller.FlagArmed) {
			expected = float64(tick.Action[0])
		}
		goal, on := j.settled(expected)
		switch {
		case !on:
		case !armed:
			first, armed = goal, true
		default:
			change = max(change, math.Abs(goal-last))
		}
		last = goal
	}
	if !armed {
		t.Fatalf("the joint at %.3f got no goal", pose)
	}
	fatal.If(t, j.robot.Halt())
	if goal, _ := j.settled(last); j.holds && math.Abs(goal-last) > 1.5*j.resolution {
		t.Errorf("a stop moves the joint from %.4f to %.4f", last, goal)
	}
	return first, change
}

// middle is a policy that wants the middle of every range.
type middle struct{ dims tflite.Dims }

func (m middle) Dims() tflite.Dims                                            { return m.dims }
func (m middle) Act(dst, _ []float32, _ []float64) error                      { clear(dst); return nil }
func (m middle) Phi(dst []float64, obs []float32) error                       { dst[0] = 1; return nil }
func (m middle) Gradient(_, _, _ []float32, _ tflite.Belief) (float32, error) { return 0, nil }
func (m middle) Search(_, _ []float32, _ tflite.Belief) (int, float32, error) { return 0, 0, nil }

// silent is an operator who gives no label.
type silent struct{}

func (silent) Ask(rewardsrc.Request)      {}
func (silent) Poll([]rewardsrc.Label) int { return 0 }
func (silent) Halt() error                { return nil }

func newArmingAgent(t *testing.T, robot hal.Robot) *controller.Agent {
	t.Helper()
	cfg := controller.DefaultConfig()
	cfg.Strategy = controller.Random
	spec := robot.Spec()
	model := middle{tflite.Dims{Obs: len(spec.Obs), Action: len(spec.Action), Latent: 2, Ensemble: 1}}
	planner, err := controller.NewPlanner(cfg, model)
	fatal.If(t, err)
	agent, err := controller.NewAgent(cfg, controller.Parts{
		Robot: robot, Source: silent{}, Model: model, Plans: controller.NewLockstep(planner),
	})
	fatal.If(t, err)
	return agent
}

// compose makes a robot of devices with one action, which from measures.
func compose(t *testing.T, from string, a composite.Action, devices ...composite.Device) hal.Robot {
	t.Helper()
	a.Name, a.Unit, a.Min, a.Max, a.MaxRate = "joint", "rad", -range_, range_, armingRate
	robot, err := composite.New(composite.Config{
		Name: "arm", Period: armingPeriod,
		Observation: []composite.Observation{{Name: "position", Unit: "rad", From: from}},
		Action:      []composite.Action{a},
	}, monotonic.Now, devices...)
	fatal.If(t, err)
	t.Cleanup(func() { _ = robot.Halt(); _ = robot.Close() })
	return robot
}

func openFeetech(t *testing.T, pose float64) joint {
	chain, err := feetechtest.New(feetechtest.NewServo(1, 0))
	fatal.If(t, err)
	t.Cleanup(func() { _ = chain.Close() })
	chain.Set(1, feetechtest.Place, 2, 2048+int(math.Round(pose*4096/(2*math.Pi))))
	d, err := feetech.Open(t.Context(), feetech.Config{
		Port: serial.Config{Path: chain.Port()}, TimeoutMs: 200, Servos: []feetech.Servo{{Name: "joint", ID: 1}},
	})
	fatal.If(t, err)
	return joint{
		robot: compose(t, "servo.joint_position", composite.Action{To: "servo.joint_goal"},
			composite.Device{Name: "servo", Device: d, Stale: time.Minute}),
		goal: func() (float64, bool) {
			return float64(chain.Get(1, feetechtest.Goal, 2)-2048) * 2 * math.Pi / 4096, chain.Get(1, feetechtest.Torque, 1) == 1
		},
	}
}

func openDynamixel(t *testing.T, pose float64) joint {
	chain, err := dynamixeltest.New(dynamixeltest.NewServo(1, 1020, 3))
	fatal.If(t, err)
	t.Cleanup(func() { _ = chain.Close() })
	chain.Set(1, dynamixeltest.PresentPlace, 4, int32(2048+math.Round(pose*4096/(2*math.Pi))))
	d, err := dynamixel.Open(t.Context(), dynamixel.Config{
		Port: serial.Config{Path: chain.Port()}, TimeoutMs: 200, Servos: []dynamixel.Servo{{Name: "joint", ID: 1}},
	})
	fatal.If(t, err)
	return joint{
		robot: compose(t, "servo.joint_position", composite.Action{To: "servo.joint_goal"},
			composite.Device{Name: "servo", Device: d, Stale: time.Minute}),
		goal: func() (float64, bool) {
			return float64(chain.Get(1, dynamixeltest.GoalPosition, 4)-2048) * 2 * math.Pi / 4096,
				chain.Get(1, dynamixeltest.TorqueEnable, 1) == 1
		},
	}
}

func openMIT(t *testing.T, pose float64) joint {
	cfg := mit.Config{TimeoutMs: 200, Motors: []mit.Motor{{
		Name: "joint", ID: 1, ReplyID: 0x11, Mode: mit.Position, Kp: 30, Kd: 1, PMax: 12.5, VMax: 30, TMax: 10,
	}}}
	motors, err := mittest.New(cfg)
	fatal.If(t, err)
	t.Cleanup(func() { _ = motors.Close() })
	motors.Put(1, mit.Answer{Position: pose})
	cfg.Interface = motors.Address
	d, err := mit.Open(t.Context(), cfg)
	fatal.If(t, err)
	return joint{
		robot: compose(t, "motor.joint_position", composite.Action{To: "motor.joint_position_goal"},
			composite.Device{Name: "motor", Device: d, Stale: time.Minute}),
		goal: func() (float64, bool) { g, on := motors.Goal(1); return g.Position, on },
	}
}

// startBoard starts a board with a joint that an encoder measures.
func startBoard(t *testing.T, pose float64, outputs ...hal.Signal) (*mcutest.Board, composite.Device) {
	board, err := mcutest.New(mcutest.Firmware{
		Name: "joint", Hz: 200, Outputs: outputs,
		Inputs: []hal.Signal{{Name: "encoder", Unit: "rad"}, {Name: "estop_closed"}},
		Step:   func(_ float64, _, inputs []float32) { inputs[0] = float32(pose) },
	})
	fatal.If(t, err)
	t.Cleanup(func() { _ = board.Close() })
	d, err := mcu.Open(t.Context(), mcu.Config{
		Port: serial.Config{Path: board.Path}, StaleMs: 10_000, TimeoutMs: 1000, DeadmanMs: 10_000,
	})
	fatal.If(t, err)
	return board, composite.Device{Name: "board", Device: d, Stale: time.Minute}
}

func openBoard(t *testing.T, pose float64) joint {
	board, device := startBoard(t, pose, hal.Signal{Name: "joint_goal", Unit: "rad"})
	return joint{
		robot: compose(t, "board.encoder", composite.Action{To: "board.joint_goal", Measured: "board.encoder"}, device),
		goal:  func() (float64, bool) { outputs, armed := board.Outputs(); return float64(outputs[0]), armed },
	}
}

// openMixture has a servo on a PCA9685, whose pulse is 1500 µs ± 400 µs/rad, and an encoder on a
// board.
func openMixture(t *testing.T, pose float64) joint {
	_, device := startBoard(t, pose)
	chip := i2cbustest.NewPCA9685()
	bus := i2cbustest.New(map[uint16]*i2cbustest.Chip{0x40: &chip.Chip})
	pwm, err := pca9685.New(bus, nil, pca9685.Config{Bus: "x", Channels: []pca9685.Channel{{Name: "joint", Pin: 0}}})
	fatal.If(t, err)
	return joint{
		robot: compose(t, "board.encoder",
			composite.Action{To: "pwm.joint", Scale: 400, Offset: 1500, Measured: "board.encoder"},
			device, composite.Device{Name: "pwm", Device: pwm}),
		goal: func() (float64, bool) {
			ticks := chip.Ticks(0)
			return (float64(ticks)*20000/4096 - 1500) / 400, ticks > 0
		},
	}
}

func openBridge(t *testing.T, pose float64) joint {
	spec := haltest.Spec(1, 1)
	spec.Period = armingPeriod
	spec.Obs[0] = hal.Channel{Name: "position", Unit: "rad"}
	spec.Action[0] = hal.Channel{
		Name: "joint", Unit: "rad", Min: -range_, Max: range_, MaxRate: armingRate, Measured: hal.Measured{Obs: "position"},
	}
	served := &commanded{Robot: haltest.New(spec)}
	served.Observe = func(_ int, obs []float32) error { obs[0] = float32(pose); served.Now = monotonic.Now(); return nil }
	address := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", address)
	fatal.If(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- bridge.Serve(ctx, l, served, nil) }()
	robot, err := bridge.Dial(t.Context(), bridge.Config{
		Address: "unix:" + address, Mode: bridge.Free, TimeoutMs: 1000, StaleMs: 60_000,
	})
	fatal.If(t, err)
	t.Cleanup(func() { _ = robot.Close(); cancel(); <-over })
	obs := make([]float32, 1)
	return joint{robot: robot, goal: func() (float64, bool) {
		_, _ = robot.Sense(obs) // its answer follows the action
		goal := served.goal.Load()
		if goal == nil {
			return 0, false
		}
		return float64(*goal), true
	}}
}

// commanded is a robot whose latest command another goroutine may read.
type commanded struct {
	*haltest.Robot
	goal atomic.Pointer[float32]
}

func (c *commanded) Act(action []float32) error {
	goal := action[0]
	c.goal.Store(&goal)
	return c.Robot.Act(action)
}
