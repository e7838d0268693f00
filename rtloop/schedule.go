package rtloop

// Beat is one tick of the clock.
type Beat struct {
	// Index is the number of the period that the tick runs in: 0, 1, 2, ...
	// since the start of the run. Skipped periods count.
	Index uint64
	// Elapsed is the number of periods since the previous beat: 1 and the
	// skipped ones; 0 for the first beat.
	Elapsed uint64
	// Deadline is when the period began and Wake when the control thread
	// was there, both in CLOCK_MONOTONIC nanoseconds.
	Deadline, Wake int64
}

// schedule numbers the periods and decides which are run. It has no clock of
// its own: it is told the time. Period i begins at start + i·period; that
// never shifts.
type schedule struct {
	start, period int64
	next          uint64 // the period that comes next
	previous      uint64 // the period of the last beat
	ticks         uint64 // periods run
	skipped       uint64 // periods given up
	misses        uint64 // periods given up since the last punctual beat
	reached       int64  // the newest moment whose period is run or given up
}

func (s *schedule) deadline(index uint64) int64 { return s.start + int64(index)*s.period }

// giveUpBefore skips the periods that began before now, for the loop comes to
// wait for them only now.
func (s *schedule) giveUpBefore(now int64) {
	if now <= s.deadline(s.next) {
		return
	}
	s.skipTo(uint64((now-s.start-1)/s.period) + 1)
	s.reached = now - 1
}

// giveUpSlept skips the periods that are over at the moment of waking.
func (s *schedule) giveUpSlept(wake int64) {
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

// begin is the beat of the next period.
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

// periods is how many periods have begun, by the clock alone: what ticks and
// skipped must add up to.
func (s *schedule) periods() uint64 {
	if s.reached < s.start {
		return 0
	}
	return uint64((s.reached-s.start)/s.period) + 1
}
