package writer

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"optibfm/hal/unitree"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

const (
	ms     = int64(time.Millisecond)
	period = 20 * time.Millisecond
)

// fake is the network of a robot whose joints are where they are commanded, and of both writers.
type fake struct {
	reading
	silent   bool
	foreign  int
	sent     bool
	lonely   bool
	unfound  bool // the standby gets no state
	unread   bool // the robot has not found the standby
	loses    bool // a Go2's motor loses packets
	second   bool // another robot sends states too
	readErr  error
	writeErr error // of the primary
	nextErr  error // of the standby
	written  []command
	rig      *rig
}

// command is an output with its time and its writer.
type command struct {
	at      int64
	standby bool
	output
}

func (c *command) damps() bool { return c.kp[0] == 0 && c.kd[0] > 0 }

func (f *fake) take(r *reading) (bool, error) {
	if f.silent || f.readErr != nil {
		return false, f.readErr
	}
	*r = f.reading
	if f.second && f.rig.now%(2*int64(Period)) == 0 {
		r.publisher++
	}
	return true, nil // always: one cycle takes a few of a flood
}

func (f *fake) others(bool) (int, bool, error) {
	sent := f.sent
	f.sent = false
	return f.foreign, sent, nil
}

// end is a writer's end of the network.
type end struct {
	*fake
	standby bool
}

// take returns nothing to a standby that has not found the robot.
func (e end) take(r *reading) (bool, error) {
	if e.standby && e.unfound {
		return false, nil
	}
	return e.fake.take(r)
}

func (e end) readers() int {
	if e.lonely || e.standby && e.unread {
		return 0
	}
	return 1
}

func (e end) write(o *output) error {
	if e.writeErr != nil && !e.standby {
		return e.writeErr
	}
	if e.nextErr != nil && e.standby {
		return e.nextErr
	}
	e.written = append(e.written, command{e.rig.now, e.standby, *o})
	if o.kp[0] > 0 {
		e.q = o.q
	}
	return nil
}

// rig is a control process and its writers in one goroutine, on a clock that each look at it
// advances.
type rig struct {
	t       *testing.T
	now     int64
	next    int64 // cycle of the writers
	robot   *unitree.Robot
	shared  *unitree.Shared
	net     *fake
	primary *primary
	standby *standby
	dead    struct{ control, primary, standby bool }
	killed  bool // the dead writers did not hang: the kernel has marked their death
	follows bool // the control process continues
	over    bool // the primary has ended
	swapped bool // the primary runs before the standby
}

func newRig(t *testing.T, model string, change func(*unitree.Config)) *rig {
	t.Helper()
	return newRigOn(t, &fake{}, model, change)
}

func newRigOn(t *testing.T, net *fake, model string, change func(*unitree.Config)) *rig {
	t.Helper()
	c := unitree.DefaultConfig()
	c.Model, c.Interface = model, unitree.Loopback
	c.Kp, c.Kd, c.DampingKd, c.MaxRate = []float64{30}, []float64{1}, []float64{4}, []float64{6}
	if change != nil {
		change(&c)
	}
	shared, err := unitree.CreateShared()
	fatal.If(t, err)
	r := &rig{t: t, now: 1e9, next: 1e9, shared: shared, net: net}
	r.net.rig = r
	r.net.sound, r.net.battery, r.net.modeMachine, r.net.quaternion = true, 80, 5, [4]float32{1}
	r.net.remote[0] = 0x55
	for i, j := range unitree.Joints(model) {
		r.net.q[i] = float32(min(max(0.1, j.Min), j.Max))
		r.net.temperature[i] = 30
	}
	config := unitree.WriterConfig{Config: c, Period: period}
	gone := func() bool { return r.dead.control }
	if r.primary, err = newPrimary(config, end{r.net, false}, shared, gone); err != nil {
		t.Fatal(err)
	}
	r.standby = newStandby(config, end{r.net, true}, shared, gone)
	r.primary.lost = func() bool { return r.killed && r.dead.standby }
	r.standby.lost = func() bool { return r.killed && r.dead.primary }
	if r.robot, err = unitree.Attach(c, period, shared, r.clock); err != nil {
		t.Fatal(err)
	}
	r.run(100 * ms)
	r.sense()
	return r
}

// clock is the robot's clock. Each look takes 0.1 ms.
func (r *rig) clock() int64 {
	r.advance(ms / 10)
	return r.now
}

func (r *rig) advance(by int64) {
	for end := r.now + by; ; {
		if r.next > end {
			r.now = end
			return
		}
		r.now = r.next
		r.next += int64(Period)
		r.cycle()
	}
}

func (r *rig) cycle() {
	r.net.tick += 2
	if r.net.loses {
		r.net.trouble[3] += 2
	}
	first, second := r.runStandby, r.runPrimary
	if r.swapped {
		first, second = second, first
	}
	first()
	second()
}

func (r *rig) runStandby() {
	if r.dead.standby {
		return
	}
	fatal.If(r.t, errtest.Of(r.standby.cycle(r.now)))
}

func (r *rig) runPrimary() {
	if r.dead.primary || r.over {
		return
	}
	over, err := r.primary.cycle(r.now)
	fatal.If(r.t, err)
	r.over = over
}

// run lets time pass.
func (r *rig) run(d int64) { r.advance(d) }

func (r *rig) sense() error {
	_, err := r.robot.Sense(make([]float32, len(r.robot.Spec().Obs)))
	return err
}

// arm arms the robot and makes it follow for a while. It returns the action that holds the pose.
func (r *rig) arm() []float32 {
	r.t.Helper()
	fatal.If(r.t, errors.Join(r.sense(), r.robot.Arm()))
	action := make([]float32, len(r.robot.Spec().Action))
	for i := range action {
		action[i] = r.net.q[i]
	}
	for range 5 {
		r.tick(action)
	}
	return action
}

func (r *rig) tick(action []float32) {
	r.t.Helper()
	fatal.If(r.t, errors.Join(r.sense(), r.robot.Act(action)))
	r.run(20 * ms)
}

// damped returns how long after a moment the first command damps, and checks that all later ones
// do.
func (r *rig) damped(after int64) int64 {
	r.t.Helper()
	first := int64(-1)
	for _, c := range r.net.written {
		if c.at < after {
			continue
		}
		if c.damps() && first < 0 {
			first = c.at - after
		}
		if !c.damps() && first >= 0 {
			r.t.Fatalf("a command that does not damp, %d ms after one that does", (c.at-after-first)/ms)
		}
	}
	if first < 0 {
		r.t.Fatal("no command damps")
	}
	return first
}

func TestWriters_DampWithinTheirTimes(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*rig)
		most    int64 // ms
	}{
		"the control process is silent": {func(*rig) {}, 62},
		"the control process ends":      {func(r *rig) { r.dead.control = true }, 2},
		"the writer is killed":          {func(r *rig) { r.killed, r.dead.primary = true, true }, 4},
		"the writer hangs":              {func(r *rig) { r.dead.primary = true }, 44},
		"writer and control die": {
			func(r *rig) { r.killed, r.dead.primary, r.dead.control = true, true, true }, 4,
		},
		"the writer and the control hang":   {func(r *rig) { r.dead.primary, r.dead.control = true, true }, 44},
		"the standby is killed":             {func(r *rig) { r.killed, r.dead.standby = true, true }, 4},
		"the standby hangs":                 {func(r *rig) { r.dead.standby, r.follows = true, true }, 304},
		"the states end":                    {func(r *rig) { r.net.silent = true }, 44},
		"the checksum is wrong":             {func(r *rig) { r.net.sound = false }, 44},
		"a state is not finite":             {func(r *rig) { r.net.dq[3] = float32(math.NaN()) }, 44},
		"a velocity is impossible":          {func(r *rig) { r.net.dq[3] = -3e38 }, 44},
		"the IMU does not run":              {func(r *rig) { r.net.quaternion = [4]float32{} }, 44},
		"another variant of the robot":      {func(r *rig) { r.net.modeMachine = 4 }, 4},
		"a motor reports a fault":           {func(r *rig) { r.net.trouble[2] = 1 }, 4},
		"another writer":                    {func(r *rig) { r.net.foreign = 1 }, 4},
		"another robot":                     {func(r *rig) { r.net.second = true }, 6},
		"another writer sends":              {func(r *rig) { r.net.sent = true }, 4},
		"the library cannot write":          {func(r *rig) { r.net.writeErr = errors.New("no") }, 4},
		"the library cannot read":           {func(r *rig) { r.net.readErr = errors.New("no") }, 4},
		"a motor is lost":                   {func(r *rig) { r.net.missing[2] = true }, 4},
		"the control thread hangs (second)": {func(r *rig) { r.robot.HaltBeside() }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, unitree.G1, nil)
			r.arm()
			r.tick(r.action())
			at := r.now
			c.happens(r)
			for range 25 {
				if r.follows { // Act fails once the writer damps
					_, _ = r.sense(), r.robot.Act(r.action())
				}
				r.run(20 * ms)
			}
			if took := r.damped(at); took > c.most*ms {
				t.Errorf("after %.1f ms, want at most %d", float64(took)/1e6, c.most)
			}
		})
	}
}

// action is the current goal.
func (r *rig) action() []float32 {
	n := len(r.robot.Spec().Action)
	return append([]float32(nil), r.net.q[:n]...)
}

func TestWriter_NeverWritesAfterTheStandbyTookOver(t *testing.T) {
	r := newRig(t, unitree.Go2, nil)
	action := r.arm()
	r.dead.primary = true
	r.run(100 * ms)
	r.dead.primary = false // it continues, with a goal that is new
	at := r.now
	errtest.Contains(t, r.robot.Act(action), "standby writer damps", "act")
	r.run(200 * ms)
	for _, c := range r.net.written {
		if c.at >= at && (!c.standby || !c.damps()) {
			t.Fatalf("a command of the writer: %+v", c)
		}
	}
	errtest.Nil(t, r.robot.Halt(), "halt")
	r.dead.standby = true // then the writer must act again
	at = r.now
	r.run(200 * ms)
	if took := r.damped(at); took > 44*ms {
		t.Errorf("without the standby: after %d ms", took/ms)
	}
	errtest.Nil(t, r.robot.Halt(), "halt without the standby")
}

func TestStandby_TriesUntilItsCommandsLeave(t *testing.T) {
	r := newRig(t, unitree.Go2, nil)
	r.arm()
	r.dead.primary, r.net.nextErr = true, errors.New("no")
	r.run(300 * ms)
	r.net.nextErr = nil
	at := r.now
	r.run(300 * ms)
	if took := r.damped(at); took > 2*ms {
		t.Errorf("after %d ms", took/ms)
	}
	r.net.nextErr, r.dead.primary = errors.New("no"), false // then the primary must
	at = r.now
	r.run(300 * ms)
	if took := r.damped(at); took > 44*ms {
		t.Errorf("the primary after %d ms", took/ms)
	}
}

func TestWriter_DampsWhenItRefusesToBeginWhileItFollows(t *testing.T) {
	r := newRig(t, unitree.Go2, nil)
	r.arm()
	r.net.lonely = true
	r.primary.goal.Epoch++
	r.primary.begin(r.now)
	at := r.now
	if r.run(2 * ms); r.primary.mode != unitree.ModeDamping || r.damped(at) > 2*ms {
		t.Errorf("mode %d, fault %d", r.primary.mode, r.primary.fault)
	}
}

func TestWriter_DoesNotBeginAgainWhileItEnds(t *testing.T) {
	r := newRig(t, unitree.Go2, nil)
	r.arm()
	r.primary.finish(r.now, lingerOrderly)
	at := r.now
	r.run(2 * ms)
	errtest.NotNil(t, r.robot.Arm(), "armed by a writer that ends")
	r.run(500 * ms)
	if r.damped(at); !r.over {
		t.Error("it has not ended")
	}
}

func TestWriter_RefusesToBeginWithALateStandby(t *testing.T) {
	r := newRig(t, unitree.Go2, nil)
	r.dead.standby = true
	r.run(60 * ms) // above standby_ms
	errtest.Contains(t, errors.Join(r.sense(), r.robot.Arm()), "standby writer was silent", "arm")
	if w := r.robot.Warning(); w == nil || !strings.Contains(w.Error(), "standby_ms") {
		t.Errorf("warning: %v", w)
	}
	r.dead.standby = false
	r.run(10 * ms)
	action := r.arm()
	if w := r.robot.Warning(); w != nil {
		t.Errorf("warning: %v", w)
	}
	r.dead.standby = true
	for range 5 { // above standby_ms, below standby_late_ms
		r.tick(action)
	}
	if w := r.robot.Warning(); w == nil || !strings.Contains(w.Error(), "standby_ms") {
		t.Errorf("armed: warning: %v", w)
	}
}

// TestWriter_BeginsWithAStandbyThatCanDamp has a standby writer that beats, but is not known to the
// robot, or does not know it: a G1 ignores commands without its mode_machine.
func TestWriter_BeginsWithAStandbyThatCanDamp(t *testing.T) {
	for name, undo := range map[string]func(*fake){
		"no state": func(f *fake) { f.unfound = false }, "no reader": func(f *fake) { f.unread = false },
	} {
		r := newRigOn(t, &fake{unfound: name == "no state", unread: name == "no reader"}, unitree.G1, nil)
		errtest.Contains(t, r.robot.Arm(), "has not found the robot yet", name)
		undo(r.net)
		r.run(10 * ms)
		r.arm()
		r.dead.primary = true
		at := r.now
		r.run(200 * ms)
		r.damped(at)
		if last := r.net.written[len(r.net.written)-1]; last.modeMachine != 5 {
			t.Errorf("%s: mode_machine %d", name, last.modeMachine)
		}
	}
}

func TestWriter_RefusesALossyMotorAtAnyMoment(t *testing.T) {
	r := newRig(t, unitree.Go2, nil)
	r.net.loses = true
	r.run(200 * ms)
	for range 100 {
		r.run(3 * ms)
		if err := errors.Join(r.sense(), r.robot.Arm()); err == nil || !strings.Contains(err.Error(), "motor FL_hip") {
			t.Fatalf("%v, want motor FL_hip", err)
		}
	}
	r.net.loses = false
	r.run(300 * ms)
	r.arm()
}

// TestWriters_DoNotBlameEachOtherAfterAPause has a pause of the whole computer, shorter than the
// deadman.
func TestWriters_DoNotBlameEachOtherAfterAPause(t *testing.T) {
	r := newRig(t, unitree.Go2, func(c *unitree.Config) { c.DeadmanMS = 100 })
	action := r.arm()
	for range 3 {
		r.now += 50 * ms // above standby_ms
		r.next = r.now
		r.swapped = !r.swapped // the one that ran last runs first
		r.run(3 * ms)
		r.tick(action)
	}
	for _, c := range r.net.written {
		if c.damps() {
			t.Fatal("a writer damped")
		}
	}
}

func TestWriter_WritesNothingToARobotThatWasNeverArmed(t *testing.T) {
	r := newRig(t, unitree.Go2, nil)
	errtest.Nil(t, r.robot.Halt())
	r.run(500 * ms)
	r.dead.primary = true
	r.run(500 * ms)
	if n := len(r.net.written); n > 0 {
		t.Errorf("%d commands", n)
	}
}

// A writer that hangs while the robot is armed for the first time has never checked it: the robot
// may stand by another program.
func TestWriter_WritesNothingAfterAnArmingWithoutAnAnswer(t *testing.T) {
	r := newRig(t, unitree.Go2, nil)
	r.run(100 * ms)
	r.net.foreign, r.dead.primary = 1, true
	if err := r.robot.Arm(); err == nil {
		t.Fatal("armed")
	}
	r.dead.primary = false
	r.run(100 * ms)
	errtest.Nil(t, r.robot.Halt())
	r.run(100 * ms)
	if n := len(r.net.written); n > 0 {
		t.Errorf("%d commands", n)
	}
}

// The robot's own controller stands it up after a restart: a writer that damps it would fight.
func TestWriters_WriteNothingToARobotThatHasRestarted(t *testing.T) {
	for name, happens := range map[string]func(*rig){
		"the writer damps": func(*rig) {}, "the standby damps": func(r *rig) { r.killed, r.dead.primary = true, true },
	} {
		r := newRig(t, unitree.Go2, nil)
		r.arm()
		happens(r)
		r.net.silent = true // its battery is changed
		r.run(5000 * ms)
		r.net.silent, r.net.tick = false, 0
		r.run(2 * ms)
		before := len(r.net.written)
		r.run(100 * ms)
		if n := len(r.net.written) - before; n > 0 {
			t.Errorf("%s: %d commands", name, n)
		}
		if r.killed {
			continue
		}
		fatal.If(t, r.sense())
		errtest.Nil(t, r.robot.Halt(), name)
		r.arm()
	}
}

func TestWriter_DampsARobotOfAnotherProcess(t *testing.T) {
	r := newRig(t, unitree.Go2, nil)
	fatal.If(t, r.robot.Damp())
	r.damped(0)
}

func TestWriter_RefusesToBegin(t *testing.T) {
	for want, wrong := range map[string]func(*rig){
		"two robots":               func(r *rig) { r.net.second = true },
		"another program writes":   func(r *rig) { r.net.foreign = 1 },
		"nothing reads rt/lowcmd":  func(r *rig) { r.net.lonely = true },
		"motor right_hip_yaw":      func(r *rig) { r.net.missing[8] = true },
		"mode_machine is not that": func(r *rig) { r.net.modeMachine = 6 },
		"standby writer died":      func(r *rig) { r.killed, r.dead.standby = true, true },
	} {
		r := newRig(t, unitree.G1, func(c *unitree.Config) { c.ModeMachine = 5 })
		wrong(r)
		r.run(100 * ms)
		_ = r.sense() // the state may be the reason
		errtest.Contains(t, r.robot.Arm(), want)
		if err := r.robot.Halt(); err != nil { // as the control process does after a refusal
			t.Errorf("%s: halt: %v", want, err)
		}
		r.run(100 * ms)
		if n := len(r.net.written); n > 0 { // they would fight with those of another program
			t.Errorf("%s: %d commands to a robot that was never armed", want, n)
		}
	}
}

func TestWriter_DampsOnWhileItRefusesToBeginAgain(t *testing.T) {
	r := newRig(t, unitree.G1, nil)
	r.arm()
	fatal.If(t, r.robot.Halt())
	at := r.now
	r.net.foreign = 1
	r.run(100 * ms)
	errtest.NotNil(t, errors.Join(r.sense(), r.robot.Arm()), "armed beside another writer")
	r.run(100 * ms)
	if took := r.damped(at); took > 2*ms {
		t.Errorf("after %d ms", took/ms)
	}
}

func TestWriter_InterpolatesWithinItsLimits(t *testing.T) {
	r := newRig(t, unitree.Go2, nil)
	action := r.arm()
	begin := r.net.q[0]
	from := len(r.net.written)
	action[0] += 0.06 // in one period of 20 ms, 3 rad/s
	r.tick(action)
	if got := r.net.q[0] - begin; math.Abs(float64(got)-0.06) > 1e-6 {
		t.Errorf("moved %g rad within a period, want 0.06", got)
	}
	last := begin
	for _, c := range r.net.written[from:] {
		if step := c.q[0] - last; step > 0.0085 || step < 0 {
			t.Errorf("a step of %g rad, want 0.06 / 10", step)
		}
		last = c.q[0]
	}
	action[0] += 0.8 // much faster than max_rate
	from = len(r.net.written)
	r.tick(action)
	for _, c := range r.net.written[from:] {
		if step := c.q[0] - last; float64(step) > 6*0.002+1e-5 {
			t.Errorf("a step of %g rad with max_rate 6", step)
		}
		last = c.q[0]
	}
}

// TestWriter_ObeysNoImpossibleState has one state whose numbers are finite, and would not be in a
// command.
func TestWriter_ObeysNoImpossibleState(t *testing.T) {
	r := newRig(t, unitree.G1, nil)
	action := r.arm()
	r.net.q[3], r.net.dq[3] = 3.4e38, 3.4e38
	from := len(r.net.written)
	r.run(2 * ms)
	r.net.dq[3] = 0
	r.tick(action)
	for _, c := range r.net.written[from:] {
		if !(math.Abs(float64(c.q[3]-action[3])) < 0.1) {
			t.Fatalf("the goal of a joint at %g is %g", action[3], c.q[3])
		}
	}
}

// TestWriter_SendsNoInfiniteGoal has the limit of the torque divided by a tiny kp.
func TestWriter_SendsNoInfiniteGoal(t *testing.T) {
	r := newRig(t, unitree.Go2, func(c *unitree.Config) { c.Kp, c.Kd = []float64{1e-40}, []float64{50} })
	r.arm()
	at := r.now
	r.net.dq[3] = 90
	r.run(20 * ms)
	for _, c := range r.net.written {
		if q := float64(c.q[3]); math.IsInf(q, 0) || math.IsNaN(q) {
			t.Fatalf("the goal %g", q)
		}
	}
	if took := r.damped(at); took > 2*ms {
		t.Errorf("after %d ms", took/ms)
	}
}

// TestLimiter_BoundsTheTorque draws wanted goals, positions and speeds.
func TestLimiter_BoundsTheTorque(t *testing.T) {
	c := unitree.DefaultConfig()
	c.Model, c.Kp, c.Kd, c.MaxRate, c.MaxTorque = unitree.Go2, []float64{40}, []float64{1}, []float64{8}, []float64{15}
	l := newLimiter(c)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		q, dq, wanted, last := rng.NormFloat64(), 5*rng.NormFloat64(), 3*rng.NormFloat64(), rng.NormFloat64()
		if rng.IntN(20) == 0 {
			wanted = math.NaN()
		}
		goal := l.limit(0, wanted, last, q, dq, Period)
		if torque := 40*(goal-q) - dq; !(math.Abs(torque) <= 15+1e-9) {
			t.Fatalf("goal %g at %g with %g rad/s: %g N·m", goal, q, dq, torque)
		}
	}
	// Without the torque, value and rate decide.
	if got := l.limit(0, 9, 0.2, 0.2, 0, Period); math.Abs(got-0.216) > 1e-12 {
		t.Errorf("rate: %g, want 0.216", got)
	}
	if got := l.limit(0, 9, 1.14, 1.14, 0, Period); math.Abs(got-1.1472) > 1e-12 {
		t.Errorf("value: %g, want 1.1472", got)
	}
	if got := l.limit(0, 9, 0.2, 0.2, 0, time.Second); math.Abs(got-0.28) > 1e-12 {
		t.Errorf("after a pause: %g, want 10 ms of motion", got)
	}
}

// FuzzWriter_ObeysNoImpossibleGoal writes any goals: a defective control process.
func FuzzWriter_ObeysNoImpossibleGoal(f *testing.F) {
	f.Add(uint64(1), int64(0), uint32(2), uint32(12), float32(0.1))
	f.Add(uint64(1), int64(1<<62), uint32(2), uint32(12), float32(math.Inf(1)))
	f.Add(uint64(9), int64(-5), uint32(77), uint32(1000), float32(1e30))
	f.Fuzz(func(t *testing.T, epoch uint64, at int64, commanded, joints uint32, position float32) {
		r := newRig(t, unitree.Go2, nil)
		r.arm()
		begin := r.net.q
		p := r.primary
		g := unitree.Goal{Epoch: epoch, At: at, Command: commanded, Joints: joints}
		for i := range g.Position {
			g.Position[i] = position
		}
		if p.valid(&g, r.now) && g.At > r.now {
			t.Error("a goal from the future extends the deadman")
		}
		if p.valid(&g, r.now) && g.Command == unitree.CommandFollow {
			p.goal, p.goalSeen, p.from, p.mode = g, r.now, p.last, unitree.ModeFollowing
		}
		from := len(r.net.written)
		r.run(20 * ms)
		last := begin
		for _, c := range r.net.written[from:] {
			for i := range 12 {
				step := float64(c.q[i] - last[i])
				if !(math.Abs(step) <= 6*0.01+1e-4) {
					t.Fatalf("joint %d steps by %g", i, step)
				}
			}
			last = c.q
		}
	})
}

func TestRobot_SenseAndActAllocateNothing(t *testing.T) {
	r := newRig(t, unitree.G1, nil)
	action := r.arm()
	obs := make([]float32, len(r.robot.Spec().Obs))
	r.net.written = make([]command, 0, 100_000)
	if n := testing.AllocsPerRun(200, func() {
		fatal.If(t, errtest.Of(r.robot.Sense(obs)))
		fatal.If(t, r.robot.Act(action))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
