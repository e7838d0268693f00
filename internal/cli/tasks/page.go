package tasks

import (
	"optibfm/configs"
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
// proposes and the rewards of the keys. If Label would refuse the log, it returns only the reason.
func ForPage(path string) report.Labelling {
	end, from, err := findCandidates(path)
	if err != nil {
		return report.Labelling{Refused: err.Error()}
	}
	operator := configs.Default().Operator
	// Another version may have written the log: then the defaults apply.
	if file, err := configs.Parse(path, end.yaml); err == nil {
		operator = file.Operator
	}
	s, d := scaleOf(operator), float64(end.learner.Belief().Dim())
	l := report.Labelling{Good: s.good, Bad: s.bad, Neutral: (s.good + s.bad) / 2}
	if k := operator.Keyboard; s == (scale{k.GoodValue, k.BadValue}) {
		l.Neutral = k.NeutralValue
	}
	n := max(minPageProposed, min(maxPageProposed, int(maxPageWork/(float64(len(from))*d*d))))
	for _, m := range pick(end, from, n) {
		l.Proposed = append(l.Proposed, report.Proposal{Tick: m.tick, Gain: m.gain, Expected: m.expected})
	}
	return l
}
