package main

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/rewardsrc"
)

// tally counts what happened in a run, from its ticks. The screen, the summary
// and the JSON output read it; the log's own summary is flightlog's.
type tally struct {
	ticks   uint64 // records seen
	armed   uint64 // of these, with the robot armed
	skipped uint64 // periods that the loop skipped
	dropped uint64 // periods whose record did not arrive

	episodes  uint64    // that ended
	returns   []float64 // theirs; of more than maxReturns the first ones and the newest
	running   float64   // of the episode in progress
	rewarded  uint64    // armed ticks with a reward
	rewardSum float64

	asked, answered, expired uint64
	applied, undone, refused uint64
	firstBad                 string // why the first label was refused

	replans uint64
	maxAge  uint64 // of z, ticks
	limited uint64
	badObs  uint64

	lateness *hdrhistogram.Histogram // wake-up, µs/10
	duration *hdrhistogram.Histogram // of a tick, µs/10

	last    controller.Tick // a copy of the newest tick
	hasLast bool
}

const histogramUnit = 100 // ns

func newTally(shape controller.Shape) *tally {
	const second = 1e9 / histogramUnit
	return &tally{
		lateness: hdrhistogram.New(1, 60*second, 3),
		duration: hdrhistogram.New(1, 60*second, 3),
		last:     *controller.NewTick(shape),
	}
}

// add counts a tick. t is not kept.
func (y *tally) add(t *controller.Tick) {
	if y.hasLast {
		y.skipped += max(t.Elapsed, 1) - 1
		if gap := t.Index - y.last.Index; gap > t.Elapsed {
			y.dropped += gap - t.Elapsed
		}
	}
	y.ticks++
	y.addReward(t)
	y.addLabels(t)
	if t.Flags.Has(controller.FlagArmed) {
		y.armed++
		y.maxAge = max(y.maxAge, t.Index-t.PlanConfirmed)
	}
	count(&y.replans, t.Flags.Has(controller.FlagReplanned))
	count(&y.limited, t.Flags.Has(controller.FlagLimited))
	count(&y.badObs, t.Flags.Has(controller.FlagBadObs))
	record(y.lateness, t.Wake-t.Deadline)
	record(y.duration, t.Done-t.Wake)
	y.last.CopyFrom(t)
	y.hasLast = true
}

func count(n *uint64, yes bool) {
	if yes {
		*n++
	}
}

func record(h *hdrhistogram.Histogram, ns int64) {
	v := min(max(ns/histogramUnit, 0), h.HighestTrackableValue())
	_ = h.RecordValue(v) // within range by the line above
}

// micros returns a quantile of a histogram in microseconds.
func micros(h *hdrhistogram.Histogram, percent float64) float64 {
	return float64(h.ValueAtPercentile(percent)) * histogramUnit / 1000
}

func (y *tally) addReward(t *controller.Tick) {
	if !t.Flags.Has(controller.FlagArmed | controller.FlagReward) {
		return
	}
	if t.Step == 0 {
		y.running = 0
		return
	}
	y.running += t.Reward
	y.rewardSum += t.Reward
	y.rewarded++
	if t.Flags.Has(controller.FlagEpisodeEnd) {
		y.addReturn(y.running)
		y.running = 0
	}
}

// maxReturns bounds the memory of a run without end.
const maxReturns = 10_000

func (y *tally) addReturn(r float64) {
	y.episodes++
	if len(y.returns) == maxReturns {
		y.returns = slices.Delete(y.returns, maxReturns/4, maxReturns/2)
	}
	y.returns = append(y.returns, r)
}

func (y *tally) addLabels(t *controller.Tick) {
	for i := range t.NumLabels {
		l := &t.Labels[i]
		switch {
		case l.Outcome == controller.Applied && l.Kind == rewardsrc.Undo:
			y.undone++
		case l.Outcome == controller.Applied:
			y.applied++
		case l.Outcome != controller.ClosedRequest:
			y.refuse(l.Outcome.String())
		}
	}
}

// refuse counts a label that does not count, or a press that gave none.
func (y *tally) refuse(why string) {
	y.refused++
	if y.firstBad == "" {
		y.firstBad = why
	}
}

// request counts a request notice.
func (y *tally) request(r rewardsrc.Request) {
	switch r.State {
	case rewardsrc.Open:
		y.asked++
	case rewardsrc.Answered:
		y.answered++
	case rewardsrc.Expired:
		y.expired++
	}
}

// averageReward is that of all armed steps so far.
func (y *tally) averageReward() float64 {
	if y.rewarded == 0 {
		return 0
	}
	return y.rewardSum / float64(y.rewarded)
}

// timing is the loop's timing as the log keeps it.
func (y *tally) timing() flightlog.Timing {
	return flightlog.Timing{
		At: y.last.Done, Ticks: y.ticks, Skipped: y.skipped,
		Late: percentiles(y.lateness), Busy: percentiles(y.duration),
	}
}

func percentiles(h *hdrhistogram.Histogram) flightlog.Percentiles {
	at := func(percent float64) time.Duration {
		return time.Duration(h.ValueAtPercentile(percent)) * histogramUnit
	}
	return flightlog.Percentiles{P50: at(50), P99: at(99), P999: at(99.9), Max: at(100)}
}
