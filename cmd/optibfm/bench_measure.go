package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"optibfm/tflite"
)

// timed is a row: a call that is repeated, and what was measured.
type timed struct {
	name string
	call func() error
	work func() tflite.Work // of the network that call uses; nil where none counts

	times   *hdrhistogram.Histogram // of a call, ns
	mallocs uint64
	garbage uint64 // bytes
	took    tflite.Work
}

func newTimed(name string, call func() error) *timed {
	const longest = int64(10 * time.Minute)
	return &timed{name: name, call: call, times: hdrhistogram.New(1, longest, 3)}
}

// on counts the work of the model that the row uses, where it says.
func (t *timed) on(m tflite.Model) *timed {
	if n, ok := m.(*tflite.Network); ok {
		t.work = n.Work
	}
	return t
}

func (t *timed) calls() int64     { return t.times.TotalCount() }
func (t *timed) least() float64   { return float64(t.times.Min()) }
func (t *timed) p50() float64     { return float64(t.times.ValueAtQuantile(50)) }
func (t *timed) p99() float64     { return float64(t.times.ValueAtQuantile(99)) }
func (t *timed) max() float64     { return float64(t.times.Max()) }
func (t *timed) allocs() float64  { return float64(t.mallocs) / float64(t.calls()) }
func (t *timed) wasted() float64  { return float64(t.garbage) / float64(t.calls()) }
func (t *timed) flops() float64   { return float64(t.took.FLOPs) / float64(t.calls()) }
func (t *timed) traffic() float64 { return float64(t.took.Bytes) / float64(t.calls()) }

// pace says how long or how often rows are repeated.
type pace struct {
	rounds int
	slice  time.Duration // of a row in a round
	count  int           // calls of a row in a round, instead of slice; 0: slice
}

// rounds in which the rows take turns: enough for what the machine does
// meanwhile to meet all rows, few enough for a slice to have some calls.
const benchRounds = 10

func (o benchOptions) pace() pace {
	p := pace{rounds: benchRounds, slice: o.span / benchRounds}
	if o.count > 0 {
		p.rounds = min(benchRounds, o.count)
		p.count = (o.count + p.rounds - 1) / p.rounds
	}
	return p
}

// enough reports whether a slice is over.
func (p pace) enough(calls int, elapsed time.Duration) bool {
	if p.count > 0 {
		return calls >= p.count
	}
	return elapsed >= p.slice
}

// measure lets the rows take turns. The garbage is collected between the rounds
// only: rows must not pay for each other's.
func measure(rows []*timed, p pace) error {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	clock := clockCost()
	for round := range p.rounds {
		for i := range rows {
			row := rows[(i+round)%len(rows)] // nobody always follows the same one
			if err := row.slice(p, clock); err != nil {
				return fmt.Errorf("bench: %s: %w", row.name, err)
			}
		}
		runtime.GC()
	}
	return nil
}

// slice is a row's turn. The first two calls, which find the caches full of
// others' data, and may grow memory, do not count.
func (t *timed) slice(p pace, clock time.Duration) error {
	for range 2 {
		if err := t.call(); err != nil {
			return err
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	worked := t.worked()
	start := time.Now()
	for calls, last := 0, start; !p.enough(calls, last.Sub(start)); calls++ {
		called := time.Now()
		if err := t.call(); err != nil {
			return err
		}
		last = time.Now()
		if err := t.times.RecordValue(int64(max(last.Sub(called)-clock, 1))); err != nil {
			return err
		}
	}
	work := t.worked().Sub(worked)
	runtime.ReadMemStats(&after)
	t.mallocs += after.Mallocs - before.Mallocs
	t.garbage += after.TotalAlloc - before.TotalAlloc
	t.took.FLOPs += work.FLOPs
	t.took.Bytes += work.Bytes
	return nil
}

func (t *timed) worked() tflite.Work {
	if t.work == nil {
		return tflite.Work{}
	}
	return t.work()
}

// clockCost is what timing an empty call measures.
func clockCost() time.Duration {
	least := time.Second
	for range 1000 {
		start := time.Now()
		least = min(least, time.Since(start))
	}
	return least
}
