package terminal

import (
	"fmt"
	"slices"

	"optibfm/controller"
	"optibfm/rewardsrc"
)

// given are the labels of a person that count.
type given struct {
	counts [numGiven]int
	newest []givenLabel // at most maxMarks
}

// givenLabel is a label in the row of the newest ones.
type givenLabel struct {
	id   uint64
	kind int
}

// The kinds of a label in given.
const (
	givenGood = iota
	givenBad
	givenNeither
	givenBetter
	givenWorse
	givenGoal
	numGiven
)

// givenKinds has a name, the key and an ink for each.
var givenKinds = [numGiven]struct {
	name string
	key  rune
	ink  ink
}{
	{"good", '+', inkGood}, {"bad", '-', inkBad}, {"neither", '0', inkDim},
	{"better", '>', inkGood}, {"worse", '<', inkBad}, {"goal", 'g', inkAccent},
}

func (g *given) add(l *controller.AppliedLabel) {
	if l.Kind == rewardsrc.Undo {
		if i := slices.IndexFunc(g.newest, func(x givenLabel) bool { return x.id == l.Undoes }); i >= 0 {
			g.counts[g.newest[i].kind]--
			g.newest = slices.Delete(g.newest, i, i+1)
		}
		return
	}
	kind := [...]int{givenBad, givenNeither, givenGood}[markSign(l.Value)+1]
	switch {
	case l.Kind == rewardsrc.Goal:
		kind = givenGoal
	case l.Kind == rewardsrc.Comparison && l.Value >= 0:
		kind = givenBetter
	case l.Kind == rewardsrc.Comparison:
		kind = givenWorse
	}
	g.counts[kind]++
	if len(g.newest) == undoable {
		g.newest = slices.Delete(g.newest, 0, 1)
	}
	g.newest = append(g.newest, givenLabel{l.ID, kind})
}

// undoable is the number of newest labels that an undo can reach.
const undoable = 256

// drawLearnt shows in words what the robot has learnt.
func (s *screenDisplay) drawLearnt(p *panel) {
	t := &s.stats.Last
	p.heading("LEARNT", "")
	predicted, of := t.Predicted.Labels, t.Predicted.Of
	part := float64(predicted) / 10
	k, text := inkPlain, "no labels yet"
	switch {
	case t.Flags.Has(controller.FlagLearnt):
		k, text, part = inkGood, "learnt: you may stop", 1
	case of > 1:
		text = fmt.Sprintf("predicted %d of your last %d labels", predicted, of)
	case s.stats.Used() == 1:
		text = "the first label counts"
		if s.stats.Undone > 0 {
			text = "1 label counts"
		}
	case s.stats.Used() > 1:
		text = fmt.Sprintf("%d labels count", s.stats.Used())
	case s.stats.Undone > 0:
		text = "no label counts: all are undone"
	}
	p.text(p.x, p.y, k, text)
	p.progress(p.x, p.y+1, p.w, part)
	p.y += 2
}

// drawGiven shows the tally of a person's labels and the newest ones.
func (s *screenDisplay) drawGiven(p *panel) {
	p.heading("YOUR LABELS", s.labelRate())
	x := p.x
	for kind, k := range givenKinds {
		n := s.given.counts[kind]
		if n == 0 && kind != givenGood && kind != givenBad {
			continue
		}
		x = p.text(x, p.y, k.ink, fmt.Sprint(n))
		x = p.text(x, p.y, inkDim, " "+k.name) + 2
	}
	p.y++
	newest := s.given.newest[max(0, len(s.given.newest)-p.w):]
	for i, l := range newest {
		p.set(p.x+i, p.y, givenKinds[l.kind].ink, givenKinds[l.kind].key)
	}
	p.y++
	s.drawRequests(p, p.x)
}

// drawValue draws how much a label would teach in the last minute.
func (s *screenDisplay) drawValue(p *panel, rows int) {
	t, kappa := &s.stats.Last, s.stats.Last.Kappa
	right := fmt.Sprintf("D-gap %.2g, asks from κ %.2g", t.DGap, kappa)
	if s.session.File.Controller.Gate.Off {
		kappa, right = 0, fmt.Sprintf("D-gap %.2g, never asks", t.DGap)
	}
	p.heading("A LABEL TEACHES", right)
	s.history.drawGap(p.canvas, p.x, p.y, p.w, rows, kappa)
	p.y += rows
}
