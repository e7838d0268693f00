package report

import (
	"cmp"
	"slices"
)

// doubts are, of something that is claimed, the probabilities of numbers as far on
// the wanted side of a bound, and as far on the other, if the truth were the bound.
// It is decided where one of them is at most doubtful.
type doubts struct {
	holds, fails float64
	tried        bool // some of it was run
	lacking      bool // some of it was not run
}

// doubtful is what remains beyond one end of a 95 % interval.
const doubtful = (1 - confidence) / 2

var (
	undecided = doubts{holds: 1, fails: 1, tried: true}
	untried   = doubts{holds: 1, fails: 1, lacking: true}
	untold    = doubts{} // nothing is claimed
)

// verdict is what can be said at 95 %.
func (d doubts) verdict() Verdict {
	switch {
	case !d.tried:
		return NotRun
	case d.fails <= doubtful:
		return DoesNotHold
	case d.holds > doubtful:
		return CannotTell
	case d.lacking:
		return HoldsInPart
	}
	return Holds
}

// allOf holds where each does: as doubtful as the most doubtful of them. It fails
// where one does, which by chance is n times as likely among n. What was not run
// says nothing.
func allOf(each []doubts) doubts {
	whole, tried := gather(each)
	if len(tried) == 0 {
		return whole
	}
	whole.holds = slices.MaxFunc(tried, func(a, b doubts) int { return cmp.Compare(a.holds, b.holds) }).holds
	whole.fails = amongst(tried, func(d doubts) float64 { return d.fails })
	return whole
}

// someOf holds where one does, and fails where each does.
func someOf(each []doubts) doubts {
	whole, tried := gather(each)
	if len(tried) == 0 {
		return whole
	}
	whole.holds = amongst(tried, func(d doubts) float64 { return d.holds })
	whole.fails = slices.MaxFunc(tried, func(a, b doubts) int { return cmp.Compare(a.fails, b.fails) }).fails
	return whole
}

// decider is the one of some that decides about them: the surest where one holds,
// the least refuted where all fail, -1 where nothing is decided.
func decider(each []doubts) int {
	verdict, best := someOf(each).verdict(), -1
	for i, d := range each {
		switch {
		case !d.tried:
			continue
		case best < 0:
		case verdict == DoesNotHold && d.fails <= each[best].fails:
			continue
		case verdict != DoesNotHold && d.holds >= each[best].holds:
			continue
		}
		best = i
	}
	if verdict == CannotTell {
		return -1
	}
	return best
}

// gather sorts out what was tried.
func gather(each []doubts) (whole doubts, tried []doubts) {
	whole = doubts{holds: 1, fails: 1}
	for _, d := range each {
		whole.lacking = whole.lacking || d.lacking
		if d.tried {
			tried = append(tried, d)
		}
	}
	whole.tried = len(tried) > 0
	return whole, tried
}

// amongst is the least of n doubts, as one of n (Bonferroni).
func amongst(tried []doubts, of func(doubts) float64) float64 {
	least := 1.0
	for _, d := range tried {
		least = min(least, of(d))
	}
	return min(1, least*float64(len(tried)))
}

func doubtsOf(findings []Finding) []doubts {
	each := make([]doubts, len(findings))
	for i := range findings {
		each[i] = findings[i].doubts
	}
	return each
}

// together fills in what becomes of each claim's doubt where all of them are judged
// together: the n-th smallest of m is taken m+1-n times (Holm, 1979). The chance
// that any claim is decided wrongly stays 5 % where those at 5 % or less count.
func together(judgements []Judgement) {
	var tried []*Judgement
	for i := range judgements {
		if judgements[i].Verdict != NotRun {
			tried = append(tried, &judgements[i])
		}
	}
	slices.SortStableFunc(tried, func(a, b *Judgement) int { return cmp.Compare(a.Doubt, b.Doubt) })
	greatest := 0.0
	for i, j := range tried {
		greatest = max(greatest, min(1, j.Doubt*float64(len(tried)-i)))
		j.Together = greatest
	}
}

// Decided says whether there is a verdict.
func (j *Judgement) Decided() bool {
	return j.Verdict == Holds || j.Verdict == HoldsInPart || j.Verdict == DoesNotHold
}

// Stands says whether the verdict is one also where all claims are judged
// together.
func (j *Judgement) Stands() bool { return j.Decided() && j.Together <= 1-confidence }
