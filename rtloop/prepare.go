package rtloop

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// minSlots are the scheduler slots (GOMAXPROCS) that the process needs, so that
// the control thread always finds a free one when it wakes: one each for
// itself, the watchdog, the rest of the program and the runtime's own work.
const minSlots = 4

// prepared is whether this process has a Loop: garbage collection and locked
// memory belong to the process.
var prepared atomic.Bool

// Prepare makes a control thread and asks for all that cfg wants: locked
// memory, and for the thread its FIFO priority, processors and timer slack. It
// collects garbage, switches the collector off behind the memory limit, and
// raises GOMAXPROCS to 4 where it is less. Call it before the robot is armed,
// after the large allocations of the start, and call Run or Close afterwards:
// they undo it. A process has one Loop at a time.
//
// Granted says what was given and, for the rest, why not and how to get it;
// it is complete also when the error is ErrPosture.
func Prepare(cfg Config) (*Loop, Granted, error) {
	if err := cfg.Validate(); err != nil {
		return nil, Granted{}, err
	}
	if !prepared.CompareAndSwap(false, true) {
		return nil, Granted{}, errors.New("rtloop: this process has a loop already: Run or Close it first")
	}
	l := &Loop{
		cfg:      cfg,
		clock:    monotonic{},
		granted:  Granted{Posture: cfg.Posture},
		work:     make(chan func()),
		lateness: newHistogram(),
		duration: newHistogram(),
	}
	l.granted.Grants = append(l.granted.Grants, l.lockMemory()...)
	l.stopCollecting()
	l.raiseSlots()

	threads := make(chan []Grant)
	go l.thread(threads)
	l.granted.Grants = append(l.granted.Grants, <-threads...)

	if missing := l.granted.Missing(); len(missing) > 0 && cfg.Posture == Strict {
		l.Close()
		return nil, l.granted, fmt.Errorf("rtloop: %w (posture: %s):\n%v", ErrPosture, cfg.Posture, l.granted)
	}
	return l, l.granted, nil
}

// stopCollecting switches the garbage collector off below the memory limit.
func (l *Loop) stopCollecting() {
	runtime.GC()
	percent := debug.SetGCPercent(-1)
	limit := debug.SetMemoryLimit(int64(l.cfg.MemoryLimitMiB) << 20)
	l.restore = append(l.restore, func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	})
}

func (l *Loop) raiseSlots() {
	before := runtime.GOMAXPROCS(0)
	if before >= minSlots {
		return
	}
	runtime.GOMAXPROCS(minSlots)
	l.restore = append(l.restore, func() { runtime.GOMAXPROCS(before) })
}

// gcCycles is the number of garbage collections of this process.
func gcCycles() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
