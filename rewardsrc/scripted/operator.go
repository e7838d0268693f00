package scripted

import (
	"math"
	"math/rand/v2"

	"optibfm/rewardsrc"
)

const (
	// historyLen is the most ticks that a request may reach back: one second at
	// 1 kHz, far longer than a request takes to arrive.
	historyLen = 1024
	// queueLen bounds the unasked labels that wait for their press or for a
	// Poll.
	queueLen = 4096

	// Separate streams of random numbers: no weakness changes the numbers of another.
	answerStream   = 0x9e3779b97f4a7c15
	awayStream     = 0xbf58476d1ce4e5b9
	reactionStream = 0x7265616374696f6e
	driftStream    = 0x6472696674
	fatigueStream  = 0x66617469677565
)

// Operator is a simulated operator: a [rewardsrc.Source] and
// [rewardsrc.Watcher]. One goroutine uses it.
type Operator struct {
	cfg             Config
	delay, interval int64 // nanoseconds
	away, every     int64
	rng             *rand.Rand // mistakes and noise

	reaction  reaction
	memory    average // what the operator judges, if memory_s is not 0
	recent    average // what it compares with, if relative is not 0
	zero      walk
	tiredness tiredness

	started   bool
	start     int64 // time of the first Watch, the origin of absences
	now       int64 // time of the newest Watch
	newest    uint64
	history   [historyLen]moment
	nextPress int64 // no unasked label of a state before this

	waiting queue // unasked labels, by time of press; those from before now are judged
	open    request
	given   int // labels
	dropped uint64
}

// moment is one tick as the operator saw it.
type moment struct {
	tick   uint64
	at     int64
	reward float64
	ok     bool
	seen   bool // the entry is in use
}

// request is the open request and the answer to it.
type request struct {
	rewardsrc.Request
	wanted  bool  // open and unanswered
	shown   int64 // when the operator saw it
	decided bool  // answer is valid
	judged  bool  // and has its value
	answer  press
}

// press is a label whose value the operator finds when it presses.
type press struct {
	rewardsrc.Label
	reward   float64 // of the labelled state
	mistaken bool
	noise    float64
}

// New returns an operator, or the error of cfg.Validate.
func New(cfg Config) (*Operator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	random := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(cfg.Seed, stream)) }
	return &Operator{
		cfg:      cfg,
		delay:    nanoseconds(cfg.DelayS),
		interval: nanoseconds(cfg.IntervalS),
		away:     nanoseconds(cfg.Absence.AwayS),
		every:    nanoseconds(cfg.Absence.EveryS),
		rng:      random(answerStream),
		reaction: reaction{shortest: cfg.ReactionMinS, longest: cfg.ReactionMaxS, random: random(reactionStream)},
		memory:   average{tau: cfg.MemoryS * 1e9},
		recent:   average{tau: cfg.RelativeS * 1e9},
		zero:     walk{std: cfg.Drift.MinuteStd, bound: cfg.Drift.Bound, random: random(driftStream)},
		tiredness: tiredness{
			halfLife: cfg.Fatigue.HalfLife, recovery: cfg.Fatigue.RecoveryS * 1e9, random: random(fatigueStream),
		},
		waiting: queue{presses: make([]press, queueLen)},
	}, nil
}

func nanoseconds(s float64) int64 { return int64(math.Round(s * 1e9)) }

// Watch shows the operator the state of a tick. Call it before Ask and Poll.
func (o *Operator) Watch(tick uint64, at int64, reward float64, ok bool) {
	if !o.started {
		o.started, o.start, o.nextPress, o.zero.at = true, at, at, at
	}
	o.judgeBefore(at)
	seen := moment{tick: tick, at: at, reward: reward, seen: true}
	seen.ok = ok && !math.IsNaN(reward) && !math.IsInf(reward, 0) && !o.isAway(at)
	o.now, o.newest = at, tick
	o.history[tick%historyLen] = seen
	o.remember(seen)
	if o.cfg.Mode == EveryTick {
		o.pressUnasked(seen)
	}
}

// remember updates what the operator judges with.
func (o *Operator) remember(seen moment) {
	if o.zero.std > 0 {
		o.zero.step(o.now)
	}
	if seen.ok && o.memory.tau > 0 {
		o.memory.add(o.now, seen.reward)
	}
	if seen.ok && o.recent.tau > 0 {
		o.recent.add(o.now, seen.reward)
	}
}

func (o *Operator) pressUnasked(seen moment) {
	if !seen.ok || o.now < o.nextPress {
		return
	}
	kind, reward := o.judgement(seen.tick)
	if kind == rewardsrc.CantTell {
		return
	}
	o.nextPress = o.now + o.interval
	p := o.newPress(kind, seen.tick, o.now+o.delay, reward)
	if o.isAway(o.now+o.delay) || !o.gives(p) {
		return
	}
	if o.cfg.Blind {
		p.Tick = rewardsrc.NoTick
	}
	if !o.waiting.push(p) {
		o.dropped++
	}
}

// newPress returns a press with its reaction, mistake and noise. It always draws all of them, also
// if the press is lost, so that operators with the same seed differ only by their weaknesses.
func (o *Operator) newPress(kind rewardsrc.Kind, tick uint64, at int64, reward float64) press {
	p := press{Label: rewardsrc.Label{Kind: kind, Tick: tick, At: at + o.reaction.draw()}, reward: reward}
	if kind.Teaches() {
		p.mistaken = o.rng.Float64() < o.cfg.MistakeProbability
		p.noise = o.rng.NormFloat64() * o.cfg.NoiseStd
	}
	return p
}

// Ask shows that a request is open or closed. A new request replaces the last
// one. If the operator also labels that tick unasked, that label becomes the
// answer: the operator never labels a state twice.
func (o *Operator) Ask(r rewardsrc.Request) {
	if o.open.ID != 0 && (r.State == rewardsrc.Open || r.ID == o.open.ID) {
		o.withdraw()
	}
	if r.State == rewardsrc.Open {
		o.open = request{Request: r, wanted: true, shown: max(o.now, r.At)}
	}
}

// withdraw closes the open request. A waiting label that was linked to it
// becomes unasked again.
func (o *Operator) withdraw() {
	o.waiting.unlink(o.open.ID)
	o.open = request{}
}

// decide determines the answer to the open request, once its tick was seen.
func (o *Operator) decide() {
	if !o.open.wanted || o.open.decided || !o.started || o.newest < o.open.Tick {
		return
	}
	if o.waiting.link(o.open.Tick, o.open.ID) {
		o.open.wanted = false
		return
	}
	at := o.open.shown + o.delay
	if o.isAway(o.open.shown) || o.isAway(at) {
		o.open.wanted = false
		return
	}
	kind, reward := o.judgement(o.open.Tick)
	o.open.decided = true
	o.open.answer = o.newPress(kind, o.open.Tick, at, reward)
	o.open.answer.Request = o.open.ID
	o.open.wanted = o.gives(o.open.answer)
}

// judgement returns the kind of the label of a tick, and its reward or, for a comparison, the
// difference.
func (o *Operator) judgement(tick uint64) (kind rewardsrc.Kind, reward float64) {
	seen := o.history[tick%historyLen]
	if !seen.seen || seen.tick != tick || !seen.ok {
		return rewardsrc.CantTell, seen.reward
	}
	if o.cfg.CompareS == 0 {
		return rewardsrc.Value, seen.reward
	}
	before, ok := o.lastUntil(seen.at-nanoseconds(o.cfg.CompareS), tick)
	difference := seen.reward - before.reward
	if !ok || math.Abs(difference) < leastDifference*(o.cfg.RewardHigh-o.cfg.RewardLow) {
		return rewardsrc.CantTell, 0
	}
	return rewardsrc.Comparison, difference
}

// leastDifference is the least difference that an operator sees, in parts of the range of the
// reward.
const leastDifference = 0.05

// lastUntil returns the last moment at or before a time and before a tick.
func (o *Operator) lastUntil(at int64, tick uint64) (before moment, ok bool) {
	for back := uint64(1); back < historyLen && back <= tick; back++ {
		before = o.history[(tick-back)%historyLen]
		if !before.seen || before.tick != tick-back {
			continue
		}
		if before.at <= at {
			return before, before.ok
		}
	}
	return moment{}, false
}

// gives reports whether the operator is willing to press and present at the time of the press.
func (o *Operator) gives(p press) bool {
	if !o.tiredness.willing(o.now) || o.isAway(p.At) || o.cfg.MaxLabels > 0 && o.given >= o.cfg.MaxLabels {
		return false
	}
	if p.Kind.Teaches() {
		o.given++
	}
	o.tiredness.pressed()
	return true
}

// Poll returns the labels with presses up to the newest Watch, the answer to a
// request first.
func (o *Operator) Poll(dst []rewardsrc.Label) int {
	o.decide()
	o.judgeBefore(o.now + 1)
	n := 0
	if o.open.wanted && o.open.judged && n < len(dst) {
		dst[n] = o.open.answer.Label
		o.open.wanted = false
		n++
	}
	for n < len(dst) {
		label, ok := o.waiting.popJudged()
		if !ok {
			break
		}
		dst[n] = label
		n++
	}
	return n
}

// judgeBefore gives the presses before a time their values: the operator judges what it saw until
// then.
func (o *Operator) judgeBefore(at int64) {
	if a := &o.open.answer; o.open.wanted && o.open.decided && !o.open.judged && a.At < at {
		o.judge(a)
		o.open.judged = true
	}
	for p := o.waiting.firstBefore(at); p != nil; p = o.waiting.firstBefore(at) {
		o.judge(p)
		o.waiting.judged++
	}
}

// Halt drops the labels that were not polled and the open request.
func (o *Operator) Halt() error {
	o.open = request{}
	o.waiting.clear()
	return nil
}

// Dropped returns the number of labels that did not fit into the queue.
func (o *Operator) Dropped() uint64 { return o.dropped }

// judge sets the value of a press.
func (o *Operator) judge(p *press) {
	low, high := o.cfg.RewardLow, o.cfg.RewardHigh
	switch p.Kind {
	case rewardsrc.CantTell:
		return
	case rewardsrc.Comparison:
		p.Value = rewardsrc.Better(high, low).Value
		if p.mistaken != (p.reward < 0) {
			p.Value = -p.Value
		}
		return
	}
	value := o.opinion(p.reward)
	if p.mistaken {
		value = low + high - min(max(value, low), high)
	}
	value += p.noise
	if o.cfg.Levels > 1 {
		value = nearestLevel(value, low, high, o.cfg.Levels)
	}
	if o.cfg.Bias != 0 { // +0 would change a label of -0
		value += o.cfg.Bias
	}
	p.Value = value
}

// opinion returns the operator's present opinion of a state with a reward.
func (o *Operator) opinion(reward float64) float64 {
	value, low, high := reward, o.cfg.RewardLow, o.cfg.RewardHigh
	if o.memory.tau > 0 {
		value = o.memory.mean
	}
	if o.cfg.Relative > 0 {
		value -= o.cfg.Relative * (o.recent.mean - (low+high)/2)
		value = min(max(value, low), high)
	}
	if zero := o.cfg.Drift.Start + o.zero.x; zero != 0 {
		value += zero
	}
	return value
}

func nearestLevel(v, low, high float64, levels int) float64 {
	steps := float64(levels - 1)
	at := math.Round((v - low) / (high - low) * steps)
	return low + (high-low)*min(max(at, 0), steps)/steps
}

// isAway reports whether the operator is absent at a time. It is stateless: the
// seed and the number of the window determine the start of each absence.
func (o *Operator) isAway(at int64) bool {
	if o.away == 0 || at < o.start {
		return false
	}
	window := (at - o.start) / o.every
	var rng rand.PCG
	rng.Seed(o.cfg.Seed^awayStream, uint64(window))
	u := float64(rng.Uint64()>>11) / (1 << 53)
	begin := int64(u * float64(o.every-o.away))
	into := (at - o.start) % o.every
	return into >= begin && into < begin+o.away
}
