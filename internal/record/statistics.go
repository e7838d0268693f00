package record

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/rewardsrc"
)

// Statistics counts the events of a run. The screen, the summary and the JSON output read it. flightlog computes
// the summary of a log from its records.
type Statistics struct {
	Ticks   uint64 // records seen
	armed   uint64 // of these, with the robot armed
	Skipped uint64 // periods that the loop skipped
	Dropped uint64 // periods without a record

	Episodes  uint64    // finished episodes
	Returns   []float64 // their returns; beyond maxReturns the first and the newest ones
	Running   float64   // return of the present episode so far
	rewarded  uint64    // armed ticks with a reward
	rewardSum float64

	Asked, Answered, Expired uint64
	Applied, Undone, Refused uint64 // of the run; Last.Counted has the labels in the belief
	FirstBad                 string // reason of the first refused label

	Replans uint64
	MaxAge  uint64 // of z, ticks
	Limited uint64
	BadObs  uint64

	Lateness *hdrhistogram.Histogram // of the wake-up, 100 ns
	Duration *hdrhistogram.Histogram // of a tick, 100 ns
	Age      *hdrhistogram.Histogram // of the newest sample at the wake-up, 100 ns; meaningless in simulated time

	Last    controller.Tick // a copy of the newest tick
	hasLast bool
}

const histogramUnit = 100 // ns

// NewStatistics returns empty statistics of a robot's ticks.
func NewStatistics(shape controller.Shape) *Statistics {
	const second = 1e9 / histogramUnit
	return &Statistics{
		Lateness: hdrhistogram.New(1, 60*second, 3),
		Duration: hdrhistogram.New(1, 60*second, 3),
		Age:      hdrhistogram.New(1, 60*second, 3),
		Last:     *controller.NewTick(shape),
	}
}

// Add counts a tick without its labels. It does not keep t.
func (y *Statistics) Add(t *controller.Tick) {
	if y.hasLast {
		y.Skipped += max(t.Elapsed, 1) - 1
		if gap := t.Index - y.Last.Index; gap > t.Elapsed {
			y.Dropped += gap - t.Elapsed
		}
	}
	y.Ticks++
	y.addReward(t)
	if t.Flags.Has(controller.FlagArmed) {
		y.armed++
		y.MaxAge = max(y.MaxAge, t.Index-t.PlanConfirmed)
	}
	count(&y.Replans, t.Flags.Has(controller.FlagReplanned))
	count(&y.Limited, t.Flags.Has(controller.FlagLimited))
	count(&y.BadObs, t.Flags.Has(controller.FlagBadObs))
	record(y.Lateness, t.Wake-t.Deadline)
	record(y.Duration, t.Done-t.Wake)
	if t.SenseAt != 0 {
		record(y.Age, t.Wake-t.SenseAt)
	}
	y.Last.CopyFrom(t)
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

// Micros returns a quantile of a histogram in microseconds.
func Micros(h *hdrhistogram.Histogram, percent float64) float64 {
	return float64(h.ValueAtPercentile(percent)) * histogramUnit / 1000
}

func (y *Statistics) addReward(t *controller.Tick) {
	if !t.Flags.Has(controller.FlagArmed | controller.FlagReward) {
		return
	}
	if t.Step == 0 {
		y.Running = 0
		return
	}
	y.Running += t.Reward
	y.rewardSum += t.Reward
	y.rewarded++
	if t.Flags.Has(controller.FlagEpisodeEnd) {
		y.addReturn(y.Running)
		y.Running = 0
	}
}

// maxReturns bounds the memory.
const maxReturns = 10_000

func (y *Statistics) addReturn(r float64) {
	y.Episodes++
	if len(y.Returns) == maxReturns {
		y.Returns = slices.Delete(y.Returns, maxReturns/4, maxReturns/2)
	}
	y.Returns = append(y.Returns, r)
}

// addLabel counts what a tick did with a label.
func (y *Statistics) addLabel(l *controller.AppliedLabel) {
	switch {
	case l.Outcome == controller.Applied && l.Kind == rewardsrc.Undo:
		y.Undone++
	case l.Outcome == controller.Applied && l.Kind.Teaches():
		y.Applied++
	case l.Outcome == controller.Applied: // rewardsrc.Keep
	case l.Outcome != controller.ClosedRequest:
		y.refuse(l.Outcome.String())
	}
}

// refuse counts a refused label.
func (y *Statistics) refuse(why string) {
	y.Refused++
	if y.FirstBad == "" {
		y.FirstBad = why
	}
}

// request counts a request or its end.
func (y *Statistics) request(r rewardsrc.Request) {
	switch r.State {
	case rewardsrc.Open:
		y.Asked++
	case rewardsrc.Answered:
		y.Answered++
	case rewardsrc.Expired:
		y.Expired++
	}
}

// AverageReward returns the mean reward of all armed steps.
func (y *Statistics) AverageReward() float64 {
	if y.rewarded == 0 {
		return 0
	}
	return y.rewardSum / float64(y.rewarded)
}

// Timing returns the loop's timing for the log.
func (y *Statistics) Timing() flightlog.Timing {
	return flightlog.Timing{
		At: y.Last.Done, Ticks: y.Ticks, Skipped: y.Skipped,
		Late: percentiles(y.Lateness), Busy: percentiles(y.Duration),
	}
}

func percentiles(h *hdrhistogram.Histogram) flightlog.Percentiles {
	at := func(percent float64) time.Duration {
		return time.Duration(h.ValueAtPercentile(percent)) * histogramUnit
	}
	return flightlog.Percentiles{P50: at(50), P99: at(99), P999: at(99.9), Max: at(100)}
}
