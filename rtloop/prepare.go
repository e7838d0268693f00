package rtloop

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync/atomic"
)

// minSlots is the number of scheduler slots (GOMAXPROCS) with which the control
// thread always finds a free one when it wakes: one each for itself, the watchdog,
// the rest of the program and the runtime.
const minSlots = 4

// prepared is true while this process has a Loop. Garbage collection and locked
// memory are properties of the process.
var prepared atomic.Bool

// Prepare creates a control thread and requests the posture of cfg: locked memory,
// and the FIFO priority, processors and timer slack of the thread. It collects
// garbage, disables the collector below the memory limit, raises GOMAXPROCS to at
// least 4, and gives the other threads of the process SCHED_RR below the control
// thread's priority. Call it after the large allocations of the start and before
// the robot is armed. Call Run or Close afterwards: they undo it. A process has one
// Loop at a time.
//
// Granted lists the granted requests, and the cause and fix of refused ones. It is
// also complete if the error is ErrPosture.
func Prepare(cfg Config) (*Loop, Granted, error) {
	if err := cfg.Validate(); err != nil {
		return nil, Granted{}, err
	}
	if !prepared.CompareAndSwap(false, true) {
		return nil, Granted{}, errors.New("rtloop: this process already has a loop; Run or Close it first")
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
	l.raiseCompanions()

	if missing := l.granted.Missing(); len(missing) > 0 && cfg.Posture == Strict {
		l.Close()
		return nil, l.granted, fmt.Errorf("rtloop: %w (posture: %s):\n%v", ErrPosture, cfg.Posture, l.granted)
	}
	return l, l.granted, nil
}

// stopCollecting disables the garbage collector below the memory limit.
func (l *Loop) stopCollecting() {
	runtime.GC()
	percent := debug.SetGCPercent(-1)
	limit := debug.SetMemoryLimit(int64(l.cfg.MemoryLimitMiB) << 20)
	l.restore = append(l.restore, func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	})
}

// raiseCompanions gives the other threads a priority below that of the control thread, if there is
// one. A refusal is one of fifo_priority.
func (l *Loop) raiseCompanions() {
	i := slices.IndexFunc(l.granted.Grants, func(g Grant) bool { return g.Request == "fifo_priority" })
	if i < 0 || !l.granted.Grants[i].Granted || l.cfg.Priority <= 1 {
		return
	}
	c, err := startCompanions(l.cfg.Priority, l.tid)
	if err != nil {
		g := &l.granted.Grants[i]
		g.Granted, g.Why = false, "other threads of the process: "+err.Error()
		g.Fix = "check the seccomp filter and the real-time budget of the control group"
		return
	}
	l.companions = c
	l.restore = append(l.restore, c.Stop)
}

func (l *Loop) raiseSlots() {
	before := runtime.GOMAXPROCS(0)
	if before >= minSlots {
		return
	}
	runtime.GOMAXPROCS(minSlots)
	l.restore = append(l.restore, func() { runtime.GOMAXPROCS(before) })
}

// gcCycles returns the number of garbage collections of this process.
func gcCycles() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
