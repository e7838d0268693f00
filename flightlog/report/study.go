package report

import (
	"slices"

	"optibfm/controller"
	"optibfm/rewardsrc"
)

// Study says what a page can compute again.
type Study string

// What a page can compute again.
const (
	Everything Study = "everything" // all that flightlog.WhatIf does
	Labels     Study = "labels"     // other λ and ρ; of κ, which of the labels would not have been asked for
	Nothing    Study = "nothing"
)

const (
	maxWhole  = 8 << 20 // bytes of φ of all ticks
	maxLabels = 6 << 20 // bytes of φ of the labels
)

// fitsWhole reports whether the φ of n ticks and of the labels go into a page.
func fitsWhole(n, labels, d int) bool { return n <= maxPoints && (n+labels)*d*8 <= maxWhole }

// credit gathers φ̄ of every label from the ticks that it was credited to, with
// the triangular weights of controller.Learner.
type credit struct {
	labels  []*credited // in the order of their application
	waiting []*credited // by their first tick, not begun
	active  []*credited
}

// credited is a label that the run applied: a value, or an undo of one.
type credited struct {
	label
	sum   []float64 // of weighted φ; after the last tick φ̄
	total float64
}

func newCredit(c *collected) *credit {
	k := &credit{}
	for _, l := range c.labels {
		if l.Outcome != controller.Applied {
			continue
		}
		entry := &credited{label: l}
		c.narrow(&entry.AppliedLabel)
		k.labels = append(k.labels, entry)
		if l.Kind == rewardsrc.Value {
			k.waiting = append(k.waiting, entry)
		}
	}
	slices.SortStableFunc(k.waiting, func(a, b *credited) int {
		if a.From < b.From {
			return -1
		}
		if a.From > b.From {
			return 1
		}
		return 0
	})
	return k
}

// narrow limits what a label is about to ticks that the log holds, as a learner
// does that never saw the others.
func (c *collected) narrow(a *controller.AppliedLabel) {
	if a.Kind != rewardsrc.Value || a.From == a.To {
		return
	}
	held := func(pos int) bool { return !c.columns.flags[pos].Has(controller.FlagBadObs) }
	from, _ := c.position(a.From)
	end, found := c.position(a.To)
	if found {
		end++
	}
	for from < end && !held(from) {
		from++
	}
	for from < end && !held(end-1) {
		end--
	}
	if from >= end {
		return
	}
	a.From, a.To = c.columns.index[from], c.columns.index[end-1]
	middle, found := c.position(a.From + (a.To-a.From)/2)
	if !found {
		middle--
	}
	for middle > from && !held(middle) {
		middle--
	}
	a.About = c.columns.index[middle]
}

// observe adds the φ of a tick to the labels that are about it.
func (k *credit) observe(tick uint64, phi []float64) {
	for len(k.waiting) > 0 && k.waiting[0].From <= tick {
		k.active = append(k.active, k.waiting[0])
		k.waiting = k.waiting[1:]
	}
	k.active = slices.DeleteFunc(k.active, func(l *credited) bool { return l.To < tick })
	for _, l := range k.active {
		if l.sum == nil {
			l.sum = make([]float64, len(phi))
		}
		w := float64(1 + min(tick-l.From, l.To-tick))
		l.total += w
		for i, v := range phi {
			l.sum[i] += float64(w * v)
		}
	}
}

// mean returns φ̄, nil where no tick of it is in the log.
func (l *credited) mean() []float64 {
	if l.total == 0 {
		return nil
	}
	mean := make([]float64, len(l.sum))
	for i, v := range l.sum {
		mean[i] = v / l.total
	}
	return mean
}

// study is what the page computes with, see page/whatif.js.
type study struct {
	Mode        Study  `json:"mode"`
	Why         string `json:"why,omitempty"` // why not everything
	Warm        bool   `json:"warm"`          // the log starts with labels that it does not hold
	Start       packed `json:"start"`         // posterior.Belief.State where Warm, float64
	MeanSpread  number `json:"mean_spread"`   // mean of ‖φ‖ in V⁻¹, as logged
	LoggedAsked uint64 `json:"logged_asked"`
	LoggedZ     packed `json:"logged_z"` // float64
	Missing     uint64 `json:"missing"`  // periods without a record
	LastClock   uint64 `json:"last_clock"`

	Labels  studyLabels  `json:"labels"`
	Ticks   studyTicks   `json:"ticks"`
	Answers studyAnswers `json:"answers"`
}

// studyLabels are columns over the labels and undos that the run applied.
type studyLabels struct {
	N           int    `json:"n"`
	Pos         packed `json:"pos"`         // uint32: of the tick in which it was applied
	Clock       packed `json:"clock"`       // uint32: periods that counted by then
	Age         packed `json:"age"`         // uint32: of these, since the tick that it is about
	Undoes      packed `json:"undoes"`      // int32: -1 for a value; else the row that it takes back, -2 for none
	Volunteered packed `json:"volunteered"` // uint8
	Unasked     packed `json:"unasked"`     // uint8
	Undone      packed `json:"undone"`      // uint8
	Known       packed `json:"known"`       // uint8: φ is
	Value       packed `json:"value"`       // float64
	Confidence  packed `json:"confidence"`  // float64
	Phi         packed `json:"phi"`         // float64 [n, d]
}

// studyTicks are columns over all ticks, in mode Everything.
type studyTicks struct {
	Index  packed `json:"index"`  // uint32: since the first
	Clock  packed `json:"clock"`  // uint32
	Flags  packed `json:"flags"`  // uint8: 1 armed, 2 bad observation, 4 rewarded
	Reward packed `json:"reward"` // float64
	Phi    packed `json:"phi"`    // float64 [n, d]
}

// studyAnswers are what the log knows about a request at a tick.
type studyAnswers struct {
	Pos      packed `json:"pos"`       // uint32: of the tick
	Row      packed `json:"row"`       // uint32: of the label
	CantTell packed `json:"cant_tell"` // uint32: positions of ticks
}

func newStudy(c *collected, b *believed) study {
	s := study{
		Mode: Everything, LoggedAsked: c.summary.Asked, LoggedZ: float64s(b.result.Z), Missing: c.summary.Dropped,
		MeanSpread: number(meanOf(b.spread)),
	}
	d, n := c.meta.Shape.Latent, c.ticks()
	labels := b.credit.labels
	switch {
	case b.failed != nil:
		s.Mode, s.Why = Nothing, "the log could not be replayed"
	case n == 0:
		s.Mode, s.Why = Nothing, "the log holds no ticks"
	case len(labels)*d*8 <= maxLabels && c.unreachable():
		s.Mode, s.Why = Labels, "the operator could not be reached at times"
	case fitsWhole(n, len(labels), d):
	case len(labels)*d*8 <= maxLabels:
		s.Mode, s.Why = Labels, "the features of all ticks would make the page too large"
	default:
		s.Mode, s.Why = Nothing, "the features of the labels would make the page too large"
	}
	if s.Mode == Nothing {
		return s
	}
	s.LastClock = c.columns.clock[n-1]
	if s.Warm = !c.isPrior(); s.Warm {
		s.Start = float64s(c.first.State)
	}
	rows := s.addLabels(c, labels)
	if s.Mode == Everything {
		s.addTicks(c, b.phi)
		s.addAnswers(c, rows)
	}
	return s
}

// unreachable reports whether nobody could be asked in some tick.
func (c *collected) unreachable() bool {
	return slices.ContainsFunc(c.columns.flags, func(f controller.Flags) bool { return f.Has(controller.FlagUnreachable) })
}

// addLabels returns the rows of the labels by their ID.
func (s *study) addLabels(c *collected, labels []*credited) map[uint64]uint32 {
	n := len(labels)
	rows := make(map[uint64]uint32, n)
	var pos, clock, age []uint32
	var undoes []int32
	var volunteered, unasked, undone, known []uint8
	var value, confidence, phi []float64
	for i, l := range labels {
		now := c.columns.clock[l.pos]
		pos = append(pos, uint32(l.pos))
		clock = append(clock, uint32(now))
		age = append(age, uint32(c.aged(l, now)))
		takesBack := int32(-1)
		if l.Kind == rewardsrc.Undo {
			takesBack = -2
			if row, ok := rows[l.Undoes]; ok {
				takesBack = int32(row)
			}
		} else {
			rows[l.ID] = uint32(i)
		}
		undoes = append(undoes, takesBack)
		volunteered = append(volunteered, bit(c.answers.Volunteered(l.AppliedLabel)))
		unasked = append(unasked, bit(l.Request == 0))
		undone = append(undone, bit(c.answers.Undone(l.ID)))
		value = append(value, l.Value)
		sure := l.Confidence
		if sure == 0 {
			sure = 1
		}
		confidence = append(confidence, sure)
		mean := l.mean()
		known = append(known, bit(mean != nil))
		if mean == nil {
			mean = make([]float64, c.meta.Shape.Latent)
		}
		phi = append(phi, mean...)
	}
	s.Labels = studyLabels{
		N: n, Pos: uint32s(pos), Clock: uint32s(clock), Age: uint32s(age), Undoes: int32s(undoes),
		Volunteered: bytesOf(volunteered), Unasked: bytesOf(unasked), Undone: bytesOf(undone), Known: bytesOf(known),
		Value: float64s(value), Confidence: float64s(confidence), Phi: float64s(phi),
	}
	return rows
}

// aged returns how many periods that counted lie between the tick that a label
// is about and now.
func (c *collected) aged(l *credited, now uint64) uint64 {
	pos, found := c.position(l.About)
	if !found && pos > 0 {
		pos--
	}
	return now - min(now, c.columns.clock[pos])
}

func (s *study) addTicks(c *collected, phi []float64) {
	v := &c.columns
	n := c.ticks()
	index, clock, flags := make([]uint32, n), make([]uint32, n), make([]uint8, n)
	for i := range n {
		index[i] = uint32(v.index[i] - v.index[0])
		clock[i] = uint32(v.clock[i])
		flags[i] = bit(v.flags[i].Has(controller.FlagArmed)) |
			bit(v.flags[i].Has(controller.FlagBadObs))<<1 | bit(v.flags[i].Has(controller.FlagReward))<<2
	}
	s.Ticks = studyTicks{
		Index: uint32s(index), Clock: uint32s(clock), Flags: bytesOf(flags), Reward: float64s(v.reward), Phi: float64s(phi),
	}
}

func (s *study) addAnswers(c *collected, rows map[uint64]uint32) {
	var pos, row, cantTell []uint32
	for i, index := range c.columns.index {
		if known, ok := c.answers.About(index); ok {
			if r, ok := rows[known.Label.ID]; ok {
				pos, row = append(pos, uint32(i)), append(row, r)
			}
		}
		if c.answers.CantTell(index) {
			cantTell = append(cantTell, uint32(i))
		}
	}
	s.Answers = studyAnswers{Pos: uint32s(pos), Row: uint32s(row), CantTell: uint32s(cantTell)}
}

func bit(set bool) uint8 {
	if set {
		return 1
	}
	return 0
}

// meanOf returns the mean of what is known.
func meanOf(x []float64) float64 {
	sum, n := 0.0, 0.0
	for _, v := range x {
		if v == v {
			sum += v
			n++
		}
	}
	return sum / n
}
