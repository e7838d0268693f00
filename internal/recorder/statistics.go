package recorder

import (
	"cmp"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"optibfm/controller"
	"optibfm/flightlog"
)

// Statistics counts the events of a run. The screen, the summary and the JSON output read it.
type Statistics struct {
	flightlog.Counter

	Episodes  uint64    // finished episodes
	Returns   []float64 // their returns; beyond maxReturns the first and the newest ones
	Running   float64   // return of the present episode so far
	rewarded  uint64    // armed ticks with a reward
	rewardSum float64

	Applied, Refused uint64 // labels of the run; Last.Counted has those in the belief
	FirstBad         string // reason of the first refused label

	Replans uint64
	MaxAge  uint64 // of z, ticks
	Limited uint64
	BadObs  uint64

	Age *hdrhistogram.Histogram // of the newest sample at the wake-up, ns; meaningless in simulated time

	Last controller.Tick // a copy of the newest tick
}

// NewStatistics returns empty statistics of a robot's ticks.
func NewStatistics(shape controller.Shape) *Statistics {
	return &Statistics{
		Counter: flightlog.NewCounter(), Age: flightlog.NewHistogram(), Last: *controller.NewTick(shape),
	}
}

// Add counts a tick without its labels. It does not keep t.
func (y *Statistics) Add(t *controller.Tick) {
	y.AddTick(t)
	y.addReward(t)
	if t.Flags.Has(controller.FlagArmed) {
		y.MaxAge = max(y.MaxAge, t.Index-t.PlanConfirmed)
	}
	count(&y.Replans, t.Flags.Has(controller.FlagReplanned))
	count(&y.Limited, t.Flags.Has(controller.FlagLimited))
	count(&y.BadObs, t.Flags.Has(controller.FlagBadObs))
	if t.SenseAt != 0 {
		flightlog.RecordDuration(y.Age, t.Wake-t.SenseAt)
	}
	y.Last.CopyFrom(t)
}

func count(n *uint64, yes bool) {
	if yes {
		*n++
	}
}

// Micros returns a quantile of a histogram in microseconds.
func Micros(h *hdrhistogram.Histogram, percent float64) float64 {
	return float64(h.ValueAtPercentile(percent)) / 1000
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
	count(&y.Applied, y.AddLabel(l))
	if l.Outcome != controller.Applied && l.Outcome != controller.ClosedRequest {
		y.refuse(l.Outcome.String())
	}
}

// refuse counts a refused label.
func (y *Statistics) refuse(why string) {
	y.Refused++
	y.FirstBad = cmp.Or(y.FirstBad, why)
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
		Late: y.Late(), Busy: y.Busy(),
	}
}
