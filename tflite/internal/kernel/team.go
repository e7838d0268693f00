package kernel

import (
	"sync"
	"sync/atomic"
)

const (
	// divisible is the least number of multiply-adds of a product that a team divides, 4 to 20
	// microseconds. Dividing smaller ones costs more processor time than it saves.
	divisible = 1 << 19

	// rowEffort is the number of multiply-adds that take as long as LayerNorm and an activation of
	// an element.
	rowEffort = 64

	// partsPerWorker is the number of parts of a work for each worker. The others do the parts of a
	// worker that the operating system has suspended.
	partsPerWorker = 8

	// polls is the number of tests of a condition before a goroutine sleeps, about 25 microseconds:
	// more than the caller takes between two products.
	polls = 1 << 14
)

// Team divides work between the goroutine that calls Multiply or Each and others, which stay until
// Close. One goroutine uses a Team at a time.
type Team struct {
	work    work          // the current one: product or rows
	product product       // memory for it, so that run does not allocate
	rows    rows          // the same; its work may be the lists of product
	parts   atomic.Uint64 // number of the work, 32 bits; its parts, 16; the parts taken, 16
	pending atomic.Int64  // parts that are not done
	closed  atomic.Bool
	caller  *sleeper
	helpers []*sleeper
	running sync.WaitGroup
	started bool
	least   int // multiply-adds of a product that it divides
}

// work can be done in parts.
type work interface {
	// do does one of count parts. worker is the number of the worker.
	do(worker, part, count int)
}

// RowWork is work on rows that do not depend on each other.
type RowWork interface {
	Rows(from, to int)
}

// rows is the work on n rows.
type rows struct {
	work RowWork
	n    int
}

func (r *rows) do(_, part, count int) { r.work.Rows(part*r.n/count, (part+1)*r.n/count) }

// Each does work on n rows of width elements. The team divides it if that is worth it.
func (s *Scratch) Each(work RowWork, n, width int) {
	if s == nil || n == 1 || !s.team.divides(n*width*rowEffort) {
		work.Rows(0, n)
		return
	}
	t := s.team
	t.rows = rows{work, n}
	t.run(&t.rows, n)
}

// NewTeam returns a team of n workers, the caller among them: nil, the caller alone, if n is below
// 2. The first work that it divides starts the goroutines.
func NewTeam(n int) *Team {
	if n < 2 {
		return nil
	}
	t := &Team{caller: newSleeper(), least: divisible}
	for range n - 1 {
		t.helpers = append(t.helpers, newSleeper())
	}
	return t
}

// divides reports whether the team divides a product of n multiply-adds.
func (t *Team) divides(n int) bool { return t != nil && n >= t.least }

func (t *Team) workers() int {
	if t == nil {
		return 1
	}
	return 1 + len(t.helpers)
}

// Close ends the goroutines and waits for their end. Later work starts them again.
func (t *Team) Close() {
	if t == nil || !t.started {
		return
	}
	t.started = false
	t.closed.Store(true)
	t.wakeHelpers()
	t.running.Wait()
}

func (t *Team) start() {
	if t.started {
		return
	}
	t.started = true
	t.closed.Store(false)
	for i, s := range t.helpers {
		t.running.Go(func() { t.help(1+i, s) })
	}
}

// help does parts until the team is closed.
func (t *Team) help(worker int, s *sleeper) {
	for !t.closed.Load() {
		t.doParts(worker)
		s.sleepUntil(t.open)
	}
}

// run does w in at most parts parts.
func (t *Team) run(w work, parts int) {
	t.start()
	count := min(parts, partsPerWorker*t.workers())
	t.work = w
	t.pending.Store(int64(count))
	t.parts.Store((t.parts.Load()>>32+1)<<32 | uint64(count)<<16)
	t.wakeHelpers()
	t.doParts(0)
	t.caller.sleepUntil(t.done)
}

// doParts does parts of the present work until all are taken.
func (t *Team) doParts(worker int) {
	for {
		part, count, ok := t.take()
		if !ok {
			return
		}
		t.work.do(worker, part, count) // does not change before its last part is done
		if t.pending.Add(-1) == 0 {
			t.caller.wake()
		}
	}
}

// take takes one of the parts of the present work.
func (t *Team) take() (part, count int, ok bool) {
	for {
		state := t.parts.Load()
		part, count = int(uint16(state)), int(uint16(state>>16))
		if part >= count {
			return 0, 0, false
		}
		if t.parts.CompareAndSwap(state, state+1) {
			return part, count, true
		}
	}
}

// open reports whether a helper has something to do.
func (t *Team) open() bool {
	state := t.parts.Load()
	return uint16(state) < uint16(state>>16) || t.closed.Load()
}

// done reports whether the present work is complete.
func (t *Team) done() bool { return t.pending.Load() == 0 }

func (t *Team) wakeHelpers() {
	for _, s := range t.helpers {
		s.wake()
	}
}

// sleeper is the place where one goroutine waits for a condition.
type sleeper struct {
	asleep atomic.Bool
	signal chan struct{}
}

func newSleeper() *sleeper { return &sleeper{signal: make(chan struct{}, 1)} }

// sleepUntil returns when the condition holds. It first polls, then sleeps until wake.
func (s *sleeper) sleepUntil(condition func() bool) {
	for range polls {
		if condition() {
			return
		}
	}
	for {
		s.asleep.Store(true)
		if condition() && s.asleep.CompareAndSwap(true, false) {
			return
		}
		<-s.signal // wake has reset asleep
		if condition() {
			return
		}
	}
}

// wake wakes the goroutine if it sleeps. The caller has changed the condition before.
func (s *sleeper) wake() {
	if s.asleep.CompareAndSwap(true, false) {
		s.signal <- struct{}{}
	}
}
