package writer

import (
	"cmp"

	"optibfm/hal/unitree"
)

// standby damps the motors when the primary writer dies or hangs.
type standby struct {
	*states
	shared  *unitree.Shared
	damping []float64
	gone    func() bool // the control process has ended
	lost    func() bool // the primary writer has died
	limit   int64       // of the primary's silence
	primary peer
	out     output
	ready   bool // it can damp this robot
	endAt   int64
}

func newStandby(c unitree.WriterConfig, b bus, shared *unitree.Shared, gone func() bool) *standby {
	s := &standby{
		states: newStates(c.Config, b), shared: shared, gone: gone,
		limit: inNs(c.Config.StandbyMS), lost: func() bool { return shared.Died(unitree.RolePrimary) },
	}
	s.damping = unitree.Each(c.Config.DampingKd, s.joints)
	return s
}

// cycle runs once a period. over reports that the process should end. No error ends it: it may be
// the last that can damp. It does not beat without a command that it should have sent, so that the
// primary tries.
func (s *standby) cycle(now int64) (over bool, err error) {
	_ = s.read(now) // it damps without a new state
	if s.restarted && s.shared.Takeover.Load() != 0 {
		s.shared.Commanding.Store(unitree.CommandingNot)
	}
	commanding := s.shared.Commanding.Load()
	silent := s.primary.observe(s.shared.PrimaryBeat.Load(), now) > s.limit
	if commanding == unitree.CommandingNow && (silent || s.lost()) {
		s.shared.Takeover.Store(1)
	}
	damps := s.shared.Takeover.Load() != 0 && commanding == unitree.CommandingNow
	if damps {
		s.out.modeMachine = s.last.modeMachine
		damp(&s.out, &s.last, s.damping)
		if err := s.bus.write(&s.out); err != nil {
			return s.ends(now, damps), nil
		}
	}
	if !s.ready && s.received > 0 && s.bus.readers() > 0 {
		s.ready = true
		s.shared.StandbyReady.Store(1)
	}
	s.shared.StandbyBeat.Store(uint64(now))
	return s.ends(now, damps), nil
}

// ends reports whether the process should end: the control process has ended, and no command is
// left to be damped.
func (s *standby) ends(now int64, damps bool) bool {
	if !s.gone() {
		return false
	}
	if !damps {
		s.endAt = 0
		return s.shared.Commanding.Load() != unitree.CommandingNow // the primary still damps
	}
	s.endAt = cmp.Or(s.endAt, now+int64(lingerLost))
	return now >= s.endAt
}
