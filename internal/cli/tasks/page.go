package tasks

import (
	"optibfm/flightlog"
	"optibfm/flightlog/report"
)

const (
	maxPageProposed = 20
	minPageProposed = 5
	// maxPageWork limits the number of proposals in a page, which is at least minPageProposed. The
	// unit is candidates × dimensions² × proposals.
	maxPageWork = 3e9
)

// ForPage returns the data to label a log in its replay page: the first moments that Propose
// proposes, and the rewards of the keys of its operator. If Label would refuse the log, it returns
// the reason instead of moments.
func ForPage(path string, log flightlog.Metadata) report.Labelling {
	operator := operatorOf(path, log)
	s := scaleOf(log, operator)
	l := report.Labelling{Good: s.good, Bad: s.bad, Neutral: (s.good + s.bad) / 2}
	if k := operator.Keyboard; s == (scale{k.GoodValue, k.BadValue}) {
		l.Neutral = k.NeutralValue
	}
	end, from, err := findCandidates(path)
	if err != nil {
		l.Refused = err.Error()
		return l
	}
	d := float64(end.learner.Belief().Dim())
	n := max(minPageProposed, min(maxPageProposed, int(maxPageWork/(float64(len(from))*d*d))))
	for _, m := range pick(end, from, n) {
		l.Proposed = append(l.Proposed, report.Proposal{Tick: m.tick, Gain: m.gain, Expected: m.expected})
	}
	return l
}
