package terminal

import (
	"fmt"
	"slices"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/rewardsrc"
)

// given holds the labels that a person gave to this task in this run. Other labels in the belief
// are earlier ones.
type given struct {
	newest []givenLabel  // at most undoable
	older  [numGiven]int // that an undo cannot reach, of each kind
	former *given        // before the task changed: rewardsrc.Keep brings it back
}

// givenLabel is a label in the row of the newest ones.
type givenLabel struct {
	id     uint64
	kind   int
	undone bool
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

func (g *given) add(l *controller.AppliedLabel, s labelScale) {
	if l.Kind == rewardsrc.Keep {
		if g.former != nil {
			*g = *g.former
		}
		return
	}
	if g.former != nil {
		g.former.add(l, s)
	}
	if l.Kind == rewardsrc.Undo {
		if i := slices.IndexFunc(g.newest, func(x givenLabel) bool { return x.id == l.Undoes }); i >= 0 {
			g.newest[i].undone = true
		}
		return
	}
	kind := [...]int{givenBad, givenNeither, givenGood}[s.side(l)+1]
	switch {
	case l.Kind == rewardsrc.Goal:
		kind = givenGoal
	case l.Kind == rewardsrc.Comparison && l.Value >= 0:
		kind = givenBetter
	case l.Kind == rewardsrc.Comparison:
		kind = givenWorse
	}
	if len(g.newest) == undoable {
		if old := g.newest[0]; !old.undone {
			g.older[old.kind]++
		}
		g.newest = slices.Delete(g.newest, 0, 1)
	}
	g.newest = append(g.newest, givenLabel{id: l.ID, kind: kind})
}

// undoable is the number of newest labels that an undo can reach.
const undoable = 256

// keep forgets labels that are not in the belief of a tick: after a switch of the task, and if the
// robot forgot the oldest ones. While the former task can be kept, it remembers them.
func (g *given) keep(t *controller.Tick) {
	if t.Flags.Has(controller.FlagSwitched) {
		*g = given{newest: g.newest[:0]}
	}
	if !t.Flags.Has(controller.FlagKeepable) {
		g.former = nil
	}
	if _, n := g.counts(); n <= t.Counted {
		return
	}
	if t.Flags.Has(controller.FlagKeepable) {
		g.former = &given{newest: slices.Clone(g.newest), older: g.older}
	}
	g.older = [numGiven]int{}
	n := uint64(0)
	for i := len(g.newest) - 1; i >= 0; i-- {
		if g.newest[i].undone {
			continue
		}
		if n++; n > t.Counted {
			g.newest = slices.Delete(g.newest, 0, i+1)
			return
		}
	}
}

// counts returns the number of labels of each kind, without the undone ones, and their sum.
func (g *given) counts() (kinds [numGiven]int, sum uint64) {
	kinds = g.older
	for _, l := range g.newest {
		if !l.undone {
			kinds[l.kind]++
		}
	}
	for _, n := range kinds {
		sum += uint64(n)
	}
	return kinds, sum
}

// drawWords draws what the robot does, how well it knows the task, and what the person should do.
func (s *screenDisplay) drawWords(p *panel) {
	hint := ""
	if s.keys {
		hint = "d: details"
	}
	p.heading("THE ROBOT", hint)
	p.paragraph(inkPlain, s.doing())
	s.drawKnown(p)
	if s.person() {
		s.drawGiven(p)
	} else {
		s.drawLabels(p)
	}
	p.heading("YOU", "")
	for _, advice := range s.advice() {
		p.paragraph(inkPlain, advice)
	}
}

// doing describes what the robot does.
func (s *screenDisplay) doing() string {
	t, k := &s.stats.Last, s.session.File.Controller
	switch mode := t.Mode(); {
	case mode == controller.Stopped:
		return "It is stopped."
	case mode == controller.Starting:
		return "It moves to its start pose."
	case mode == controller.Resting:
		return "It moves to its rest pose."
	case mode == controller.Disarmed && s.waits():
		return "It waits for your first press."
	case mode == controller.Disarmed:
		return "It does not move: it is not armed."
	case s.progress.Follows() != "":
		return "It follows " + s.progress.Follows() + "."
	case k.Strategy == controller.Fixed:
		return "It follows a task that it knows."
	case k.Strategy == controller.Random:
		return "It follows random tasks."
	case t.Flags.Has(controller.FlagLearnt):
		return "It does what it learnt."
	case s.session.File.Operator.Source == configs.SourceNone:
		return "It gets no labels."
	case !s.person():
		return "It finds out its task from the labels of a simulated operator."
	case t.Counted == 0:
		return "It tries out what it can do."
	}
	return "It learns from your labels."
}

// waits reports whether the robot stands still until the first input of a person.
func (s *screenDisplay) waits() bool {
	t := &s.stats.Last
	return s.person() && t.Mode() == controller.Disarmed && t.Flags.Has(controller.FlagUnreachable) &&
		!s.session.File.Safety.Attended()
}

// drawKnown draws a sentence and a bar for the robot's knowledge of the task. For a simulated
// operator it draws the rewards.
func (s *screenDisplay) drawKnown(p *panel) {
	labels := fmt.Sprintf("%d labels", s.stats.Last.Counted)
	if s.stats.Last.Counted == 1 {
		labels = "1 label"
	}
	if !s.person() {
		p.heading("HOW WELL IT DOES", labels)
		s.drawRewards(p)
		return
	}
	p.heading("HOW WELL IT KNOWS", labels)
	t, k := &s.stats.Last, inkPlain
	text, part := s.progress.Known(t)
	switch {
	case t.Flags.Has(controller.FlagKeepable):
		k, text, part = inkAccent, "It seems that the task changed.", 0
	case t.Flags.Has(controller.FlagLearnt):
		k = inkGood
	}
	p.paragraph(k, text)
	p.progress(p.x, p.y, p.w, part)
	p.y++
}

// drawGiven shows the tally of a person's labels and the newest ones.
func (s *screenDisplay) drawGiven(p *panel) {
	p.heading("YOUR LABELS", s.labelRate())
	counts, sum := s.given.counts()
	x := p.x
	for kind, k := range givenKinds {
		n := counts[kind]
		if n == 0 && kind != givenGood && kind != givenBad {
			continue
		}
		x = p.text(x, p.y, k.ink, fmt.Sprint(n))
		x = p.text(x, p.y, inkDim, " "+k.name) + 2
	}
	if before := s.stats.Last.Counted - min(s.stats.Last.Counted, sum); before > 0 {
		x = p.text(x, p.y, inkPlain, fmt.Sprint(before))
		p.text(x, p.y, inkDim, " earlier")
	}
	p.y++
	newest := s.given.newest[max(0, len(s.given.newest)-p.w):]
	for i, l := range newest {
		k := givenKinds[l.kind].ink
		if l.undone {
			k = inkUndone
		}
		p.set(p.x+i, p.y, k, givenKinds[l.kind].key)
	}
	p.y++
	s.drawRequests(p, p.x)
}

// advice returns the advice for the person, in paragraphs.
func (s *screenDisplay) advice() []string {
	t, file := &s.stats.Last, s.session.File
	switch {
	case !s.person() && s.arena != nil && file.Run.EpisodeS > 0:
		return []string{"Watch: later episodes should give more reward. At the end each is compared with the best known " +
			"behaviour from the same start. Ctrl-C ends the run."}
	case !s.person():
		return []string{"Watch. Ctrl-C ends the run."}
	case t.Flags.Has(controller.FlagKeepable):
		return []string{"It learns the new task. To keep the former one, within a minute: " + KeepInput(file.Operator) + "."}
	case t.Flags.Has(controller.FlagLearnt):
		return []string{"Watch it. A label that contradicts what it does makes it ask again."}
	case t.Counted > 0:
		return []string{"Answer its questions, and press when you like or dislike what it does. Keep to one rule."}
	case len(file.Operator.Suggestions) == 0:
		return []string{"Choose a task and keep to one rule: good while it does it."}
	}
	return append([]string{"Choose a task and keep to one rule. For example:"}, file.Operator.Suggestions...)
}
