package rtloop

// Beat is one tick of the clock.
type Beat struct {
	// Index is the number of the tick's period: 0, 1, 2, ... since the start of
	// the run. Skipped periods count.
	Index uint64
	// Elapsed is the number of periods since the previous beat: 1 plus the
	// skipped ones; 0 for the first beat.
	Elapsed uint64
	// Deadline is the start of the period and Wake the wake-up of the control
	// thread, both in CLOCK_MONOTONIC nanoseconds.
	Deadline, Wake int64
}

// schedule numbers the periods and decides which ones run. It has no clock: its
// methods take the time. Period i begins at start + i·period; the phase never
// changes.
type schedule struct {
	start, period int64
	next          uint64 // the next period
	previous      uint64 // the period of the last beat
	ticks         uint64 // periods run
	skipped       uint64 // periods skipped
	misses        uint64 // periods skipped since the last punctual beat
	reached       int64  // the latest time whose period has run or was skipped
}

func (s *schedule) deadline(index uint64) int64 { return s.start + int64(index)*s.period }

// skipBegun skips the periods that began before now, before the loop waited for
// them.
func (s *schedule) skipBegun(now int64) {
	if now <= s.deadline(s.next) {
		return
	}
	s.skipTo(uint64((now-s.start-1)/s.period) + 1)
	s.reached = now - 1
}

// skipSlept skips the periods that are over at the wake-up.
func (s *schedule) skipSlept(wake int64) {
	current := uint64((wake - s.start) / s.period)
	if current <= s.next {
		return
	}
	s.skipTo(current)
	s.reached = wake - s.period
}

func (s *schedule) skipTo(index uint64) {
	s.skipped += index - s.next
	s.misses += index - s.next
	s.next = index
}

// begin returns the beat of the next period.
func (s *schedule) begin(wake int64) Beat {
	b := Beat{Index: s.next, Deadline: s.deadline(s.next), Wake: wake}
	if s.ticks > 0 {
		b.Elapsed = s.next - s.previous
	}
	if b.Elapsed == 1 {
		s.misses = 0
	}
	s.reached = wake
	s.ticks++
	s.previous = s.next
	s.next++
	return b
}

// periods returns the number of periods that have begun, from the clock alone. It
// must equal ticks + skipped.
func (s *schedule) periods() uint64 {
	if s.reached < s.start {
		return 0
	}
	return uint64((s.reached-s.start)/s.period) + 1
}
