package writer

import (
	"math"
	"time"

	"optibfm/hal/unitree"
)

const (
	frozenStates = 5  // states in a row with one tick
	lostPackets  = 10 // of one motor within lostWindow
	lostWindow   = 100 * time.Millisecond
	foreignSent  = time.Second // how long a command or a state of another writer counts
	restartAfter = time.Second // the shortest silence of a robot that restarts
)

// states keeps the newest good state and the robot's faults.
type states struct {
	config unitree.Config
	joints int
	stale  int64
	bus    bus

	last     reading // the newest good one
	at       int64   // its arrival; 0: none
	next     reading
	rejected unitree.Fault // why the newest bad state is bad
	badAt    int64         // its arrival
	repeated int           // states in a row without a new tick
	mixedAt  int64         // of the last state of another publisher than the one before; 0: none
	// restarted reports that this cycle has the first state of a robot that has restarted: it has
	// forgotten its commands, and its own controller may stand it up.
	restarted bool

	received, badCRC, frozen uint32

	lostBefore [unitree.MaxJoints]uint32 // at the start of the window
	lostSince  int64
	lossy      int   // the joint that lost too many packets; -1: none yet
	lossyAt    int64 // when
}

func newStates(c unitree.Config, b bus) *states {
	return &states{
		config: c, joints: len(unitree.Joints(c.Model)), bus: b, lossy: -1,
		stale: inNs(c.StaleMS),
	}
}

func inNs(ms float64) int64 { return int64(ms * float64(time.Millisecond)) }

// most is the number of states that one cycle takes: a flood of them must not delay the next
// command.
const most = 8

// read takes the states that have arrived.
func (s *states) read(now int64) error {
	s.restarted = false
	for range most {
		ok, err := s.bus.take(&s.next)
		if err != nil || !ok {
			return err
		}
		if why := s.judge(); why != unitree.FaultNone {
			s.rejected, s.badAt = why, now
			continue
		}
		if s.at != 0 && s.next.publisher != s.last.publisher && now-s.at <= s.stale { // later: it started again
			s.mixedAt = now
		}
		s.restarted = s.restarted || s.at != 0 && now-s.at > int64(restartAfter) && s.next.tick < s.last.tick
		s.countLost(now)
		s.last, s.at = s.next, now
		s.received++
	}
	return nil
}

// judge returns the reason why a state is bad.
func (s *states) judge() unitree.Fault {
	r := &s.next
	quirk := s.config.SimulatorQuirks && r.unsummed
	switch {
	case !r.sound && !quirk:
		s.badCRC++
		return unitree.FaultChecksum
	case !finite(r, s.joints) || !plausible(r, s.joints):
		return unitree.FaultValues
	case quirk || s.at == 0 || r.tick != s.last.tick:
		s.repeated = 0
		return unitree.FaultNone
	}
	s.frozen++
	s.repeated++
	if s.repeated < frozenStates { // a tick has 1 ms, a state 2 ms; some repeat
		return unitree.FaultNone
	}
	return unitree.FaultFrozen
}

func finite(r *reading, joints int) bool {
	sum := 0.0
	for _, list := range [][]float32{
		r.q[:joints], r.dq[:joints], r.tau[:joints], r.quaternion[:], r.gyro[:], r.acc[:], r.foot[:],
	} {
		for _, v := range list {
			sum += math.Abs(float64(v)) // of at most 200 float32: no overflow
		}
	}
	return !math.IsNaN(sum) && !math.IsInf(sum, 0)
}

// The greatest values that a robot of these models can have: its joints turn less than once, at 40
// rad/s at most.
const (
	maxPosition = 10.0  // rad
	maxVelocity = 100.0 // rad/s
)

// plausible reports whether values that the limits and the tilt are computed from can be those of a
// robot. An IMU that does not run has the quaternion 0, which would count as upright.
func plausible(r *reading, joints int) bool {
	for i := range joints {
		if math.Abs(float64(r.q[i])) > maxPosition || math.Abs(float64(r.dq[i])) > maxVelocity {
			return false
		}
	}
	norm := 0.0
	for _, v := range r.quaternion {
		norm += float64(v) * float64(v)
	}
	return norm > 0.8 && norm < 1.2
}

// countLost watches the packets that a Go2's motors lose.
func (s *states) countLost(now int64) {
	if s.config.Model != unitree.Go2 {
		return
	}
	if s.at == 0 || now-s.lostSince > int64(lostWindow) {
		s.lostBefore, s.lostSince = s.next.trouble, now
		return
	}
	for i := range s.joints {
		if s.next.trouble[i]-s.lostBefore[i] >= lostPackets {
			s.lossy, s.lossyAt = i, now
		}
	}
}

// fault returns the present fault of the robot's states.
func (s *states) fault(now int64) (f unitree.Fault, detail uint32) {
	r := &s.last
	switch {
	case s.at == 0 || now-s.at > s.stale:
		if s.badAt != 0 && now-s.badAt <= s.stale {
			return s.rejected, 0
		}
		return unitree.FaultNoState, 0
	case s.mixedAt != 0 && now-s.mixedAt < int64(foreignSent):
		return unitree.FaultTwoRobots, 0
	case s.config.ModeMachine != 0 && int(r.modeMachine) != s.config.ModeMachine:
		return unitree.FaultModeMachine, uint32(r.modeMachine)
	case s.lossy >= 0 && now-s.lossyAt <= int64(2*lostWindow): // the next window must end without losses
		return unitree.FaultMotor, uint32(s.lossy)
	}
	if s.config.Model == unitree.G1 {
		for i := range s.joints {
			if r.trouble[i] != 0 {
				return unitree.FaultMotor, uint32(i)
			}
		}
	}
	return unitree.FaultNone, 0
}

// missing returns a joint whose motor sends nothing; -1: none.
func (s *states) missing() int {
	if s.config.SimulatorQuirks {
		return -1
	}
	for i := range s.joints {
		if s.last.missing[i] {
			return i
		}
	}
	return -1
}
