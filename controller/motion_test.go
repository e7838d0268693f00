package controller

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/hal/haltest"
	"optibfm/internal/fatal"
)

// servoArm is a robot with two position joints, measured in degrees with another zero, and a
// gripper that is driven by its force. A joint with torque moves towards its goal with a limited
// speed.
type servoArm struct {
	*haltest.Robot
	at      [2]float64 // rad
	goal    [2]float64
	torque  bool
	blocked bool // the first joint does not move
	stuck   bool // the sensor of the first joint reads the same value
	reading float64
	largest float64 // change of a goal, from the joint's position at arming on
	acts    [][]float32
	limps   int
	limpErr error
}

const (
	servoSpeed = 6.0  // rad/s
	servoRate  = 2.0  // rad/s, of commands
	zeroDeg    = 10.0 // of the encoders
)

func servoSpec() hal.Spec {
	spec := haltest.Spec(rigObs, 3)
	spec.Name = "arm"
	for i, name := range []string{"shoulder", "elbow"} {
		spec.Obs[i] = hal.Channel{Name: name + "_deg", Unit: "deg"}
		spec.Action[i] = hal.Channel{
			Name: name, Unit: "rad", Min: -2.5, Max: 2.5, MaxRate: servoRate,
			Measured: hal.Measured{Obs: name + "_deg", Scale: math.Pi / 180, Offset: -zeroDeg * math.Pi / 180},
		}
	}
	spec.Action[2] = hal.Channel{Name: "gripper", Unit: "N", Min: -1, Max: 1, Failsafe: 0.25, Disarmed: -0.5}
	return spec
}

func newServoArm(spec hal.Spec, at [2]float64) *servoArm {
	a := &servoArm{Robot: haltest.New(spec), at: at}
	a.reading = at[0]
	a.Observe = func(_ int, obs []float32) error {
		a.move()
		for i, x := range a.at {
			if i == 0 && a.stuck {
				x = a.reading
			}
			obs[i] = float32(x*180/math.Pi + zeroDeg)
		}
		return nil
	}
	return a
}

// move moves the joints for one period.
func (a *servoArm) move() {
	step := servoSpeed * testPeriod.Seconds()
	for i := range a.at {
		if a.torque && !(i == 0 && a.blocked) {
			a.at[i] += min(max(a.goal[i]-a.at[i], -step), step)
		}
	}
}

func (a *servoArm) Arm() error {
	if err := a.Robot.Arm(); err != nil {
		return err
	}
	a.torque, a.goal = true, a.at
	if a.stuck {
		a.goal[0] = a.reading
	}
	return nil
}

func (a *servoArm) Act(action []float32) error {
	if err := a.Robot.Act(action); err != nil {
		return err
	}
	for i := range a.goal {
		a.largest = max(a.largest, math.Abs(float64(action[i])-a.goal[i]))
		a.goal[i] = float64(action[i])
	}
	a.acts = append(a.acts, slices.Clone(action))
	return nil
}

func (a *servoArm) Disarm() error { return a.Robot.Halt() }

func (a *servoArm) Limp() error {
	if a.limpErr != nil {
		return a.limpErr
	}
	a.limps++
	a.torque = false
	return a.Robot.Halt()
}

func startMotion() Motion {
	return Motion{
		Pose: map[string]float64{"shoulder": 0.3, "elbow": -1}, RampS: 0.6, SettleS: 0.2, BlendS: 0.4,
		Tolerance: 0.1, FollowS: 0.3,
	}
}

// newServoRig returns a rig with an arm that has sensed twice and has a plan. The policy wants 1
// everywhere.
func newServoRig(t testing.TB, arm *servoArm, safety Safety) *rig {
	r := newRig(t, nil)
	r.model = newStub(rigObs, 3, rigLatent)
	r.model.act = func(dst, _ []float32, _ []float64) error {
		for i := range dst {
			dst[i] = 1
		}
		return nil
	}
	r.robot = &haltest.Simulator{Robot: arm.Robot}
	r.safety = safety
	planner, err := NewPlanner(r.cfg, r.model)
	fatal.If(t, err)
	r.plans = NewLockstep(planner)
	r.build(arm)
	r.steps(2)
	return r
}

func TestAgent_MotionBeginsWhereTheRobotIs(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	for range 10 {
		at := [2]float64{5*random.Float64() - 2.5, 5*random.Float64() - 2.5}
		for _, start := range []Motion{{}, startMotion()} {
			t.Run(fmt.Sprintf("%.2f %.2f pose %v", at[0], at[1], start.Pose != nil), func(t *testing.T) {
				arm := newServoArm(servoSpec(), at)
				r := newServoRig(t, arm, Safety{Start: start})
				r.arm()
				r.steps(int(5 * time.Second / testPeriod))
				limit := servoRate*testPeriod.Seconds() + 1e-5
				if arm.largest > limit {
					t.Errorf("a goal changed by %.4f rad in a period, the limit is %.4f", arm.largest, limit)
				}
				if g := arm.acts[0][2]; start.Pose != nil && g != -0.5 {
					t.Errorf("the gripper begins at %v, not at its disarmed output", g)
				}
				if r.agent.Mode() != Armed {
					t.Errorf("mode %v", r.agent.Mode())
				}
			})
		}
	}
}

func TestAgent_StartsAtThePoseAndBlendsIntoThePolicy(t *testing.T) {
	arm := newServoArm(servoSpec(), [2]float64{2.2, 0.1})
	r := newServoRig(t, arm, Safety{Start: startMotion()})
	r.arm()
	// From 2.2 to 0.3 rad the shoulder needs 0.95 s at its largest rate; then 0.2 s at the pose and
	// 0.4 s to the policy.
	ramp, settle, blend := 48, 10, 20
	for k := 1; ; k++ {
		r.steps(1)
		if r.tick.Flags.Has(FlagArmed) {
			break
		}
		if !r.tick.Flags.Has(FlagStarting) || r.tick.Mode() != Starting || r.tick.Flags&(FlagAsked|FlagHeld) != 0 {
			t.Fatalf("tick %d: flags %b", k, r.tick.Flags)
		}
		shoulder := arm.acts[len(arm.acts)-1][0]
		if at := k - ramp; at > 1 && at < settle && math.Abs(float64(shoulder)-0.3) > 1e-5 {
			t.Fatalf("tick %d: the shoulder is at %v, not at the pose", k, shoulder)
		}
	}
	n := len(arm.acts)
	if n < ramp+settle+blend || n > ramp+settle+blend+8 {
		t.Errorf("armed after %d ticks, want about %d", n, ramp+settle+blend)
	}
	for i := 1; i < n; i++ {
		if step := math.Abs(float64(arm.acts[i][1] - arm.acts[i-1][1])); step > servoRate*testPeriod.Seconds()+1e-5 {
			t.Errorf("tick %d: the elbow's goal changes by %v", i, step)
		}
	}
}

func TestAgent_StartingTeachesNothing(t *testing.T) {
	arm := newServoArm(servoSpec(), [2]float64{1, 1})
	r := newServoRig(t, arm, Safety{Start: startMotion()})
	r.arm()
	r.steps(1)
	hash, logDet := r.tick.Hash, r.tick.LogDet
	for r.agent.Mode() == Starting {
		r.source.give(value(r.next, r.next-1, 1))
		r.steps(1)
		if l := r.tick.Labels[0]; r.tick.NumLabels != 1 || l.Outcome != RobotStopped {
			t.Fatalf("%d labels, outcome %v", r.tick.NumLabels, l.Outcome)
		}
	}
	if r.tick.Hash != hash || r.tick.LogDet != logDet || len(r.source.asked) != 0 {
		t.Errorf("the belief changed, or the robot asked %d times", len(r.source.asked))
	}
	r.steps(3)
	r.source.give(value(r.next, r.next-1, 1))
	r.steps(1)
	if r.tick.Labels[0].Outcome != Applied || r.tick.Hash == hash {
		t.Errorf("a label about the armed robot: %v", r.tick.Labels[0].Outcome)
	}
}

func TestAgent_RefusesToArmWhereMotionCouldJump(t *testing.T) {
	tick := servoRate * testPeriod.Seconds() // the longest motion of a tick, rad
	for _, c := range []struct {
		name   string
		spec   func(*hal.Spec)
		arm    func(*servoArm)
		safety func(*Safety)
		want   string // part of the error; empty: it is armed
	}{
		{"measured and limited", nil, nil, nil, ""},
		{"not measured", func(s *hal.Spec) { s.Action[1].Measured = hal.Measured{} }, nil, nil,
			`"elbow" has no position sensor`},
		{"not measured, accepted", func(s *hal.Spec) { s.Action[1].Measured = hal.Measured{} }, nil,
			func(s *Safety) { s.Start.Unmeasured = Accepted }, ""},
		{"accepted, but a measured channel has no limit", func(s *hal.Spec) {
			s.Action[0].MaxRate, s.Action[1].Measured = 0, hal.Measured{}
		}, nil, func(s *Safety) { s.Start.Unmeasured = Accepted }, `"shoulder" may jump`},
		{"measured without a unit or a limit", func(s *hal.Spec) { s.Action[0].Unit, s.Action[0].MaxRate = "", 0 }, nil, nil,
			`"shoulder" may jump`},
		{"not measured, of a simulator", func(s *hal.Spec) { s.Action[1].Measured = hal.Measured{} }, nil,
			func(s *Safety) { s.Simulated = true }, ""},
		{"no rate limit and no start pose", func(s *hal.Spec) { s.Action[0].MaxRate = 0 }, nil, nil,
			`"shoulder" may jump at its first command`},
		{"no rate limit, but a start pose", func(s *hal.Spec) { s.Action[0].MaxRate = 0 }, nil,
			func(s *Safety) { s.Start = startMotion() }, ""},
		{"at an end stop just outside its limits", nil, func(a *servoArm) { a.at[1] = -2.5 - 0.99*tick }, nil, ""},
		{"farther outside than a tick may move it", nil, func(a *servoArm) { a.at[1] = -2.5 - 1.01*tick }, nil,
			`"elbow" is at -2.`},
		{"outside its limits", nil, func(a *servoArm) { a.at[1] = -2.6 }, nil,
			`"elbow" is at -2.6 rad, outside its limits -2.5 to 2.5; move it by hand`},
		{"not finite", nil, func(a *servoArm) { a.stuck, a.reading = true, math.NaN() }, nil, "cause for a stop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := servoSpec()
			if c.spec != nil {
				c.spec(&spec)
			}
			arm := newServoArm(spec, [2]float64{1, 1})
			if c.arm != nil {
				c.arm(arm)
			}
			safety := Safety{}
			if c.safety != nil {
				c.safety(&safety)
			}
			r := newServoRig(t, arm, safety)
			err := r.agent.Arm(0)
			if c.want == "" {
				fatal.If(t, err)
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || arm.Arms != 0 || r.agent.Mode() != Disarmed {
				t.Errorf("error %v, armed %d times, want %q", err, arm.Arms, c.want)
			}
		})
	}
}

func TestAgent_RefusesAnOldPosition(t *testing.T) {
	for _, c := range []struct {
		limit, age time.Duration
		want       bool
	}{
		{0, time.Hour, true},
		{9 * testPeriod, 9 * testPeriod, true}, {9 * testPeriod, 9*testPeriod + 1, false},
	} {
		arm := newServoArm(servoSpec(), [2]float64{1, 1})
		r := newServoRig(t, arm, Safety{MaxPositionAge: c.limit})
		err := r.agent.Arm(r.agent.sensedAt + int64(c.age))
		if got := err == nil; got != c.want || !got && !strings.Contains(err.Error(), `position of "shoulder" is`) {
			t.Errorf("limit %v, age %v: %v", c.limit, c.age, err)
		}
	}
	arm := newServoArm(servoSpec(), [2]float64{1, 1})
	r := newRig(t, nil)
	r.model, r.safety = newStub(rigObs, 3, rigLatent), Safety{}
	r.build(arm)
	if err := r.agent.Arm(0); !errors.Is(err, ErrPosition) {
		t.Errorf("without a sample: %v", err)
	}
}

func TestAgent_StopsAJointThatDoesNotFollow(t *testing.T) {
	for name, harm := range map[string]func(*servoArm){
		"blocked":          func(a *servoArm) { a.blocked = true },
		"constant reading": func(a *servoArm) { a.stuck = true },
	} {
		for _, resting := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, resting %v", name, resting), func(t *testing.T) {
				arm := newServoArm(servoSpec(), [2]float64{2.2, 0})
				safety := Safety{Start: startMotion()}
				if resting {
					safety = Safety{Rest: startMotion()}
					safety.Rest.Pose = map[string]float64{"shoulder": -2}
				}
				r := newServoRig(t, arm, safety)
				if resting {
					r.arm()
					r.steps(5)
					arm.reading = arm.at[0]
					harm(arm)
					fatal.If(t, r.agent.Disarm())
				} else {
					harm(arm)
					r.arm()
				}
				var fault *FaultError
				for range 150 {
					if err := r.step(0, 0); errors.As(err, &fault) {
						break
					}
				}
				if fault == nil || fault.Fault != FaultFollow || !strings.Contains(fault.Error(), `"shoulder"`) {
					t.Fatalf("%v", fault)
				}
				if !arm.Halted || r.agent.Mode() != Stopped || !r.tick.Flags.Has(FlagStopped) {
					t.Errorf("halted %v, mode %v", arm.Halted, r.agent.Mode())
				}
			})
		}
	}
}

func TestAgent_CanBeStoppedAtAnyTickOfItsStart(t *testing.T) {
	for after := range 70 {
		arm := newServoArm(servoSpec(), [2]float64{2.2, 0})
		r := newServoRig(t, arm, Safety{Start: startMotion()})
		r.arm()
		r.steps(after)
		fatal.If(t, r.agent.Halt(FaultOperator))
		acts := arm.Acts
		r.steps(3)
		if !arm.Halted || arm.Acts != acts || r.agent.Mode() != Stopped {
			t.Fatalf("after %d ticks: halted %v, mode %v", after, arm.Halted, r.agent.Mode())
		}
	}
}

func TestAgent_SpeedsAndForcesAreIdleOnTheWayToAPose(t *testing.T) {
	arm := newServoArm(servoSpec(), [2]float64{2.2, 0})
	r := newServoRig(t, arm, Safety{Start: startMotion(), Rest: startMotion()})
	r.arm()
	for r.agent.Mode() == Starting {
		r.steps(1)
	}
	r.steps(5)
	if g := arm.acts[len(arm.acts)-1][2]; g != 1 {
		t.Fatalf("the policy's force is %v", g)
	}
	fatal.If(t, r.agent.Disarm())
	for range 5 {
		r.steps(1)
		if g := arm.acts[len(arm.acts)-1][2]; g != -0.5 {
			t.Errorf("the force is %v on the way to the rest pose, not the disarmed output", g)
		}
	}
}

// blindArm is an arm whose positions are beside its observation, and not known for some time.
type blindArm struct {
	*servoArm
	blind bool
}

func (b *blindArm) Positions(dst []float32) {
	for i := range dst {
		dst[i] = float32(nan)
		if i < 2 && !b.blind {
			dst[i] = float32(b.at[i])
		}
	}
}

func TestAgent_StaysWhereItBeganWhileThePositionIsNotKnown(t *testing.T) {
	arm := &blindArm{servoArm: newServoArm(servoSpec(), [2]float64{2, 2})}
	r := newServoRig(t, arm.servoArm, Safety{})
	r.build(arm)
	r.steps(1)
	arm.blind = true
	if err := r.agent.Arm(0); !errors.Is(err, ErrPosition) || !strings.Contains(err.Error(), `"shoulder" is not known`) {
		t.Errorf("armed blind: %v", err)
	}
	arm.blind = false
	r.arm()
	arm.blind = true
	r.steps(1)
	if got := arm.acts[0][:2]; math.Abs(float64(got[0])-2) > 0.05 || math.Abs(float64(got[1])-2) > 0.05 {
		t.Errorf("the first command is %v", got)
	}
}

func TestAgent_RestsThenGoesLimp(t *testing.T) {
	arm := newServoArm(servoSpec(), [2]float64{2.2, 0})
	r := newServoRig(t, arm, Safety{Rest: startMotion()})
	r.arm()
	r.steps(20)
	fatal.If(t, r.agent.Disarm())
	if r.agent.Mode() != Resting || !arm.torque {
		t.Fatalf("mode %v", r.agent.Mode())
	}
	if err := r.agent.Arm(0); !errors.Is(err, errResting) {
		t.Errorf("armed while resting: %v", err)
	}
	arm.largest = 0
	for k := 0; r.agent.Mode() == Resting; k++ {
		r.steps(1)
		if !r.tick.Flags.Has(FlagResting) || k > 200 {
			t.Fatalf("tick %d: flags %b", k, r.tick.Flags)
		}
	}
	farFrom := func(joint int, rest float64) bool { return math.Abs(arm.at[joint]-rest) > 0.05 }
	if arm.largest > servoRate*testPeriod.Seconds()+1e-5 || farFrom(0, 0.3) || farFrom(1, -1) {
		t.Errorf("largest step %v, at %v", arm.largest, arm.at)
	}
	if r.agent.Mode() != Disarmed || arm.limps != 1 || arm.torque {
		t.Errorf("mode %v, limp %d times", r.agent.Mode(), arm.limps)
	}
	r.arm() // and again from there
	r.steps(1)
}

func TestAgent_SecondDisarmEndsTheMotionToTheRestPose(t *testing.T) {
	arm := newServoArm(servoSpec(), [2]float64{2.2, 0})
	r := newServoRig(t, arm, Safety{Rest: startMotion()})
	r.arm()
	r.steps(5)
	fatal.If(t, r.agent.Disarm())
	r.steps(5)
	fatal.If(t, r.agent.Disarm())
	if r.agent.Mode() != Disarmed || arm.limps != 0 {
		t.Errorf("mode %v, limp %d times", r.agent.Mode(), arm.limps)
	}
}

func TestAgent_StopsIfItCannotGoLimp(t *testing.T) {
	arm := newServoArm(servoSpec(), [2]float64{0.3, -1})
	arm.limpErr = errOut
	r := newServoRig(t, arm, Safety{Rest: startMotion()})
	r.arm()
	r.steps(1)
	fatal.If(t, r.agent.Disarm())
	var fault *FaultError
	for range 100 {
		if err := r.step(0, 0); errors.As(err, &fault) {
			break
		}
	}
	if fault == nil || fault.Fault != FaultAct || !errors.Is(fault, errOut) || r.agent.Mode() != Stopped {
		t.Errorf("%v, mode %v", fault, r.agent.Mode())
	}
}

func TestAgent_RefusesAnImpossiblePose(t *testing.T) {
	for want, change := range map[string]func(*Motion){
		`no action channel "wrist"`:                   func(m *Motion) { m.Pose["wrist"] = 0 },
		"safety.start.pose: elbow: found 3":           func(m *Motion) { m.Pose["elbow"] = 3 },
		"safety.start.pose: elbow: found NaN":         func(m *Motion) { m.Pose["elbow"] = nan },
		"safety.start.ramp_s: found 0 s; give 0.1":    func(m *Motion) { m.RampS = 0 },
		"safety.start.blend_s: found 61":              func(m *Motion) { m.BlendS = 61 },
		"safety.start.settle_s: found NaN":            func(m *Motion) { m.SettleS = nan },
		"safety.start.tolerance: found 0; give a val": func(m *Motion) { m.Tolerance = 0 },
	} {
		m := startMotion()
		change(&m)
		_, err := newMover("safety.start", m, servoSpec())
		if err == nil || !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestAgent_StartAndRestAllocateNothing(t *testing.T) {
	arm := newServoArm(servoSpec(), [2]float64{2.2, 0})
	arm.acts = make([][]float32, 0)
	r := newServoRig(t, arm, Safety{Start: startMotion(), Rest: startMotion()})
	quietArm := &quietServo{servoArm: arm}
	agent, err := NewAgent(r.cfg, Parts{
		Robot: quietArm, Source: &quiet{}, Model: r.model, Plans: r.plans, Safety: r.safety,
	})
	fatal.If(t, err)
	r.agent = agent
	r.steps(2)
	r.arm()
	modes := map[Mode]int{}
	n := testing.AllocsPerRun(60, func() { r.steps(1); modes[r.agent.Mode()]++ })
	fatal.If(t, r.agent.Disarm())
	n += testing.AllocsPerRun(40, func() { r.steps(1); modes[r.agent.Mode()]++ })
	if n != 0 || modes[Starting] < 50 || modes[Resting] < 30 {
		t.Errorf("%v allocations, modes %v", n, modes)
	}
}

// quietServo is an arm that does not record its commands.
type quietServo struct{ *servoArm }

func (q *quietServo) Act(action []float32) error {
	for i := range q.goal {
		q.goal[i] = float64(action[i])
	}
	return q.Robot.Act(action)
}
