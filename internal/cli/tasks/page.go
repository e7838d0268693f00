package tasks

import (
	"optibfm/configs"
	"optibfm/flightlog/report"
)

const (
	maxPageProposed = 20
	minPageProposed = 5
	// maxPageWork bounds the work of the proposals in a page to some seconds:
	// candidates × dimensions² × proposals.
	maxPageWork = 3e9
)

// ForPage returns the data that a person needs to label a log in its replay page: the first moments
// that Propose proposes and the values of the operator's buttons, or why Label would refuse the
// log.
func ForPage(path string) report.Labelling {
	end, from, err := findCandidates(path)
	if err != nil {
		return report.Labelling{Refused: err.Error()}
	}
	operator := configs.Default().Operator
	if file, err := configs.Parse(path, end.yaml); err == nil { // another version may have written it
		operator = file.Operator
	}
	s, d := scaleOf(operator), float64(end.learner.Belief().Dim())
	l := report.Labelling{Good: s.good, Bad: s.bad, Neutral: operator.Keyboard.NeutralValue}
	n := max(minPageProposed, min(maxPageProposed, int(maxPageWork/(float64(len(from))*d*d))))
	for _, m := range pick(end, from, n) {
		l.Proposed = append(l.Proposed, report.Proposal{Tick: m.tick, Gain: m.gain, Expected: m.expected})
	}
	return l
}
