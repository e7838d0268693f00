package panel

import "math"

// longest is the time for which a button or an axis is held until it counts as stuck,
// such as a pedal under a box. It counts again after its release.
const longest = int64(60e9)

// stream gives labels at a steady rate while something is held. Times are
// CLOCK_MONOTONIC nanoseconds.
type stream struct {
	interval  int64
	holdAfter int64 // 0: buttons do not stream
	quiet     int64 // the longest silence of the device in a stream; 0: no limit

	axis  float64 // deflection, 0: centred
	down  [NumRoles]bool
	since [NumRoles]int64 // when the button went down

	heard  int64 // the last sign of life of the device
	silent bool  // it was quiet for too long

	level   float64 // the deflection that streams now, 0 for none
	began   int64
	next    int64
	number  uint64 // counts streams
	stuck   bool   // held too long: silent until its release
	onStuck func() // reports it
	onQuiet func() // reports that a stream pauses
}

// press records that a button went down or up.
func (s *stream) press(r Role, down bool, at int64) {
	if down && !s.down[r] {
		s.since[r] = at
	}
	s.down[r] = down
}

// hear records a sign of life of the device. A stream that was silent continues.
func (s *stream) hear(at int64) { s.heard, s.silent = at, false }

// reset forgets everything that is held.
func (s *stream) reset() {
	s.axis, s.level, s.stuck, s.silent = 0, 0, false, false
	clear(s.down[:])
}

// held returns the present deflection: of the axis, or else of the buttons that
// were held long enough. Good and bad together cancel out.
func (s *stream) held(now int64) float64 {
	if s.axis != 0 || s.holdAfter == 0 {
		return s.axis
	}
	sum := 0.0
	for r, down := range s.down {
		if down && now-s.since[r] >= s.holdAfter {
			sum += Role(r).deflection()
		}
	}
	return sum
}

// due returns the deflection to give a label of at now, 0 for none.
func (s *stream) due(now int64) float64 {
	before := s.level
	s.level = s.held(now)
	switch {
	case s.level == 0:
		s.stuck, s.silent = false, false
		return 0
	case before == 0:
		s.began, s.next = now, now
		s.number++
	case !s.stuck && now-s.began >= longest:
		s.stuck = true
		s.onStuck()
	case !s.stuck && !s.silent && s.quiet > 0 && now-s.heard >= s.quiet:
		s.silent = true
		s.onQuiet()
	}
	if s.stuck || s.silent || now < s.next {
		return 0
	}
	if s.next += s.interval; s.next <= now { // skip missed labels
		s.next = now + s.interval
	}
	return s.level
}

// wake returns when, after now, due must be called next; math.MaxInt64 for not
// before something changes.
func (s *stream) wake(now int64) int64 {
	switch {
	case s.stuck, s.silent:
		return math.MaxInt64
	case s.level != 0:
		return s.next
	case s.holdAfter == 0:
		return math.MaxInt64
	}
	next := int64(math.MaxInt64)
	for _, r := range []Role{Good, Bad} {
		if long := s.since[r] + s.holdAfter; s.down[r] && long > now {
			next = min(next, long)
		}
	}
	return next
}
