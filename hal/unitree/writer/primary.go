package writer

import (
	"errors"
	"math"
	"time"

	"optibfm/hal/unitree"
)

const (
	// Period is the time between two commands.
	Period = 2 * time.Millisecond
	// lingerOrderly and lingerLost are the times for which the primary damps the motors after the
	// control process ended in order, or without a message.
	lingerOrderly = 300 * time.Millisecond
	lingerLost    = 5 * time.Second
	// lookEvery is the number of cycles between two looks for other writers.
	lookEvery = 25
)

// primary is the writer that follows the control process.
type primary struct {
	*states
	shared  *unitree.Shared
	goals   *unitree.Goals
	reports *unitree.Reports
	limiter *limiter
	damping []float64
	gone    func() bool // the control process has ended
	lost    func() bool // the standby writer has died
	period  int64       // of goals
	deadman int64
	standby peer
	// The limits of the silence of the standby writer.
	lateLimit, aloneLimit int64
	late, alone           bool // the standby writer is silent for them; or it died: both

	report      unitree.Report
	mode        unitree.Mode
	fault       unitree.Fault // why it damps, or did not begin
	detail      uint32
	epoch       uint64
	modeMachine uint8 // at the time of arming
	goal        unitree.Goal
	goalSeen    int64
	from        [unitree.MaxJoints]float64 // at goalSeen
	last        [unitree.MaxJoints]float64 // the last command
	lastAt      int64
	out         output
	cycles      uint64
	foreign     int
	foreignAt   int64 // of the last command of another writer; 0: none
	endAt       int64 // 0: not yet
}

func newPrimary(c unitree.WriterConfig, b bus, shared *unitree.Shared, gone func() bool) (*primary, error) {
	p := &primary{
		states: newStates(c.Config, b), shared: shared, gone: gone, limiter: newLimiter(c.Config),
		period: int64(c.Period), deadman: inNs(c.Config.DeadmanMS),
		lost:      func() bool { return shared.Died(unitree.RoleStandby) },
		lateLimit: inNs(c.Config.StandbyMS), aloneLimit: inNs(c.Config.StandbyLateMS),
	}
	p.damping = unitree.Each(c.Config.DampingKd, p.joints)
	var err error
	if p.goals, err = shared.Goals(); err != nil {
		return nil, err
	}
	p.reports, err = shared.Reports()
	return p, err
}

// cycle runs once a period. over reports that the process should end. Once it has written a
// command, an error does not end it: what fails in one writer may fail in both, and then a command
// that does not damp must not be the last one.
func (p *primary) cycle(now int64) (over bool, err error) {
	if err := errors.Join(p.read(now), p.overhear(now)); err != nil {
		if p.mode == unitree.ModeIdle {
			return false, err
		}
		p.fail(unitree.FaultRead)
	}
	silence, dead := p.standby.observe(p.shared.StandbyBeat.Load(), now), p.lost()
	p.late, p.alone = dead || silence > p.lateLimit, dead || silence > p.aloneLimit
	if p.restarted && p.mode == unitree.ModeDamping {
		p.mode = unitree.ModeIdle
		p.shared.Commanding.Store(unitree.CommandingNot)
	}
	p.follow(now)
	p.guard(now)
	p.write(now)
	p.publish(now)
	if p.endAt != 0 && now >= p.endAt {
		p.shared.Commanding.CompareAndSwap(unitree.CommandingNow, unitree.CommandingEnded)
		return true, nil
	}
	p.shared.PrimaryBeat.Store(uint64(now))
	return false, nil
}

// overhear looks for other writers.
func (p *primary) overhear(now int64) error {
	count, sent, err := p.bus.others(p.cycles%lookEvery == 0)
	p.cycles++
	p.foreign = count
	if sent {
		p.foreignAt = now
	}
	return err
}

// contested reports whether another writer counts.
func (p *primary) contested(now int64) bool {
	sends := p.foreignAt != 0 && now-p.foreignAt < int64(foreignSent)
	return sends || p.foreign > 0 && p.config.OtherWriters == unitree.Refuse
}

// follow takes the newest goal.
func (p *primary) follow(now int64) {
	goal, fresh, ok := p.goals.Newest()
	if !ok || !fresh || p.endAt != 0 { // what ends does not begin again
		return
	}
	if !p.valid(&goal, now) {
		p.damp(unitree.FaultGoal, 0)
		return
	}
	switch goal.Command {
	case unitree.CommandHold:
		if goal.Epoch > p.epoch {
			p.goal = goal
			p.begin(now)
		}
	case unitree.CommandFollow:
		if goal.Epoch == p.epoch && (p.mode == unitree.ModeHolding || p.mode == unitree.ModeFollowing) {
			p.goal, p.goalSeen, p.from, p.mode = goal, now, p.last, unitree.ModeFollowing
		}
	case unitree.CommandDamp:
		if goal.Epoch >= p.epoch {
			p.epoch = goal.Epoch
			p.damp(unitree.FaultNone, 0)
		}
	case unitree.CommandTake:
		if goal.Epoch >= p.epoch {
			p.epoch = goal.Epoch
			p.shared.Commanding.Store(unitree.CommandingNow)
			p.halt(unitree.FaultNone, 0)
		}
	case unitree.CommandEnd:
		p.finish(now, lingerOrderly)
	}
}

// valid checks a goal: the control process may be defective.
func (p *primary) valid(g *unitree.Goal, now int64) bool {
	if g.Command > unitree.CommandEnd || int(g.Joints) != p.joints {
		return false
	}
	g.At = min(g.At, now) // it may have arrived within this cycle; no time from the future extends the deadman
	if g.Command != unitree.CommandFollow {
		return true
	}
	for i, q := range g.Position[:p.joints] {
		v := float64(q)
		if !(v >= p.limiter.low[i]-1e-3 && v <= p.limiter.high[i]+1e-3) {
			return false
		}
	}
	return true
}

// begin begins to hold the present pose, unless something is wrong.
func (p *primary) begin(now int64) {
	p.epoch = p.goal.Epoch
	fault, detail := p.states.fault(now)
	missing := p.missing()
	switch {
	case p.shared.Takeover.Load() != 0:
		fault = unitree.FaultTakeover
	case fault != unitree.FaultNone:
	case missing >= 0:
		fault, detail = unitree.FaultMotor, uint32(missing)
	case p.contested(now):
		fault, detail = unitree.FaultForeign, uint32(p.foreign)
	case p.bus.readers() == 0:
		fault = unitree.FaultNoReader
	case p.alone:
		fault = unitree.FaultStandby
	case p.late:
		fault = unitree.FaultStandbyLate
	case p.shared.StandbyReady.Load() == 0:
		fault = unitree.FaultNotReady
	}
	if fault != unitree.FaultNone {
		p.damp(fault, detail) // the control process has forgotten that it was armed
		p.fault, p.detail = fault, detail
		return
	}
	p.fault, p.detail = fault, detail
	for i := range p.joints {
		p.last[i] = float64(p.states.last.q[i])
	}
	p.from, p.modeMachine, p.lastAt = p.last, p.states.last.modeMachine, now
	p.mode = unitree.ModeHolding
	p.shared.Commanding.Store(unitree.CommandingNow)
}

// guard damps the motors after a fault.
func (p *primary) guard(now int64) {
	if p.gone() && p.endAt == 0 {
		p.damp(unitree.FaultEnded, 0)
		p.finish(now, lingerLost)
	}
	if p.mode != unitree.ModeHolding && p.mode != unitree.ModeFollowing {
		return
	}
	fault, detail := p.states.fault(now)
	missing := p.missing()
	switch {
	case p.shared.Takeover.Load() != 0:
		fault = unitree.FaultTakeover
	case now-p.goal.At > p.deadman:
		fault = unitree.FaultSilent
	case fault != unitree.FaultNone:
	case missing >= 0:
		fault, detail = unitree.FaultMotor, uint32(missing)
	case p.states.last.modeMachine != p.modeMachine:
		fault, detail = unitree.FaultModeMachine, uint32(p.states.last.modeMachine)
	case p.contested(now):
		fault, detail = unitree.FaultForeign, uint32(p.foreign)
	case p.alone:
		fault = unitree.FaultStandby
	}
	if fault != unitree.FaultNone {
		p.damp(fault, detail)
	}
}

// damp damps the motors if they are commanded. The first cause stays.
func (p *primary) damp(fault unitree.Fault, detail uint32) {
	if p.mode == unitree.ModeHolding || p.mode == unitree.ModeFollowing {
		p.halt(fault, detail)
	}
}

func (p *primary) halt(fault unitree.Fault, detail uint32) {
	if p.mode != unitree.ModeDamping {
		p.mode, p.fault, p.detail = unitree.ModeDamping, fault, detail
	}
}

// fail leaves the damping to the standby writer.
func (p *primary) fail(fault unitree.Fault) {
	p.damp(fault, 0)
	p.shared.Takeover.Store(1)
}

// finish damps the motors and ends after a while, at once if they were never commanded.
func (p *primary) finish(now int64, linger time.Duration) {
	if p.endAt != 0 {
		return
	}
	p.damp(unitree.FaultNone, 0)
	p.endAt = now
	if p.mode == unitree.ModeDamping {
		p.endAt += int64(linger)
	}
}

// write sends a command, if the motors are commanded and the standby writer does not damp them.
func (p *primary) write(now int64) {
	if p.mode == unitree.ModeIdle {
		return
	}
	if p.shared.Takeover.Load() != 0 && !p.late {
		return
	}
	s := &p.states.last
	p.out.modeMachine = s.modeMachine
	if p.mode != unitree.ModeDamping && !p.interpolate(now) {
		p.damp(unitree.FaultGoal, 0)
	}
	if p.mode == unitree.ModeDamping {
		damp(&p.out, s, p.damping)
	}
	if err := p.bus.write(&p.out); err != nil { // the standby writer uses another path
		p.fail(unitree.FaultWrite)
		return
	}
	p.lastAt = now
}

// damp makes a command that damps the motors: kp 0, and the measured position for readers that
// ignore kp.
func damp(out *output, s *reading, kd []float64) {
	for i := range kd {
		out.q[i], out.kp[i], out.kd[i] = s.q[i], 0, float32(kd[i])
	}
}

// interpolate moves the command from the last one towards the goal within a period of goals. finite
// is false for a command that must not be sent, such as that of a tiny kp.
func (p *primary) interpolate(now int64) (finite bool) {
	s, share := &p.states.last, 1.0
	if p.period > 0 {
		share = min(1, float64(now-p.goalSeen+int64(Period))/float64(p.period))
	}
	dt, sum := time.Duration(now-p.lastAt), 0.0
	for i := range p.joints {
		wanted := p.last[i]
		if p.mode == unitree.ModeFollowing {
			wanted = p.from[i] + share*(float64(p.goal.Position[i])-p.from[i])
		}
		p.last[i] = p.limiter.limit(i, wanted, p.last[i], float64(s.q[i]), float64(s.dq[i]), dt)
		p.out.q[i] = float32(p.last[i])
		p.out.kp[i], p.out.kd[i] = float32(p.limiter.kp[i]), float32(p.limiter.kd[i])
		sum += math.Abs(float64(p.out.q[i]))
	}
	return !math.IsNaN(sum) && !math.IsInf(sum, 0)
}

func (p *primary) publish(now int64) {
	r, s := &p.report, &p.states.last
	r.At, r.StateAt, r.Epoch, r.Deadman, r.Mode = now, p.at, p.epoch, p.deadman, p.mode
	r.Fault, r.FaultDetail = p.fault, p.detail
	if p.mode == unitree.ModeIdle && p.fault == unitree.FaultNone || now-p.at > p.stale && p.mode != unitree.ModeDamping {
		r.Fault, r.FaultDetail = p.states.fault(now)
	}
	r.Received, r.BadCRC = p.received, p.badCRC
	r.StandbyLate = 0
	if p.late {
		r.StandbyLate = 1
	}
	r.Battery = s.battery
	r.Position, r.Velocity, r.Torque, r.Temperature = s.q, s.dq, s.tau, s.temperature
	r.Quaternion, r.Gyro, r.Accelerometer, r.Foot, r.Remote = s.quaternion, s.gyro, s.acc, s.foot, s.remote
	p.reports.Publish(r)
}
