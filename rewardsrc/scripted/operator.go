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

	// Separate streams of random numbers: absences do not depend on the number
	// of labels.
	answerStream = 0x9e3779b97f4a7c15
	awayStream   = 0xbf58476d1ce4e5b9
)

// Operator is a simulated operator: a [rewardsrc.Source] and
// [rewardsrc.Watcher]. One goroutine uses it.
type Operator struct {
	cfg             Config
	delay, interval int64 // nanoseconds
	away, every     int64
	rng             *rand.Rand

	started   bool
	start     int64 // time of the first Watch, the origin of absences
	now       int64 // time of the newest Watch
	newest    uint64
	history   [historyLen]moment
	nextPress int64 // no unasked label of a state before this

	waiting queue // unasked labels, by time of press
	open    request
	dropped uint64
}

// moment is one tick as the operator saw it.
type moment struct {
	tick   uint64
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
	answer  rewardsrc.Label
}

// New returns an operator, or the error of cfg.Validate.
func New(cfg Config) (*Operator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Operator{
		cfg:      cfg,
		delay:    nanoseconds(cfg.DelayS),
		interval: nanoseconds(cfg.IntervalS),
		away:     nanoseconds(cfg.Absence.AwayS),
		every:    nanoseconds(cfg.Absence.EveryS),
		rng:      rand.New(rand.NewPCG(cfg.Seed, answerStream)),
		waiting:  queue{labels: make([]rewardsrc.Label, queueLen)},
	}, nil
}

func nanoseconds(s float64) int64 { return int64(math.Round(s * 1e9)) }

// Watch shows the operator the state of a tick. Call it before Ask and Poll.
func (o *Operator) Watch(tick uint64, at int64, reward float64, ok bool) {
	if !o.started {
		o.started, o.start, o.nextPress = true, at, at
	}
	ok = ok && !math.IsNaN(reward) && !math.IsInf(reward, 0)
	o.now, o.newest = at, tick
	o.history[tick%historyLen] = moment{tick: tick, reward: reward, ok: ok && !o.isAway(at), seen: true}
	if o.cfg.Mode == EveryTick {
		o.pressUnasked(tick, at)
	}
}

func (o *Operator) pressUnasked(tick uint64, at int64) {
	seen := o.history[tick%historyLen]
	if !seen.ok || at < o.nextPress {
		return
	}
	o.nextPress = at + o.interval
	value := o.judge(seen.reward) // even if the press is lost: uses the same random numbers
	press := at + o.delay
	if o.isAway(press) {
		return
	}
	label := rewardsrc.Label{Kind: rewardsrc.Value, Tick: tick, At: press, Value: value}
	if o.cfg.Blind {
		label.Tick = rewardsrc.NoTick
	}
	if !o.waiting.push(label) {
		o.dropped++
	}
}

// Ask shows that a request is open or closed. A new request replaces the last
// one. If the operator also labels that tick unasked, that label becomes the
// answer: no state is labelled twice.
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
	press := o.open.shown + o.delay
	if o.isAway(o.open.shown) || o.isAway(press) {
		o.open.wanted = false
		return
	}
	o.open.decided = true
	o.open.answer = rewardsrc.Label{
		Kind: rewardsrc.CantTell, Request: o.open.ID, Tick: o.open.Tick, At: press,
	}
	seen := o.history[o.open.Tick%historyLen]
	if seen.seen && seen.tick == o.open.Tick && seen.ok {
		o.open.answer.Kind = rewardsrc.Value
		o.open.answer.Value = o.judge(seen.reward)
	}
}

// Poll returns the labels with presses up to the newest Watch, the answer to a
// request first.
func (o *Operator) Poll(dst []rewardsrc.Label) int {
	o.decide()
	n := 0
	if o.open.wanted && o.open.decided && o.open.answer.At <= o.now && n < len(dst) {
		dst[n] = o.open.answer
		o.open.wanted = false
		n++
	}
	for n < len(dst) {
		label, ok := o.waiting.popUntil(o.now)
		if !ok {
			break
		}
		dst[n] = label
		n++
	}
	return n
}

// Halt drops the labels that were not polled and the open request.
func (o *Operator) Halt() error {
	o.open = request{}
	o.waiting.clear()
	return nil
}

// Dropped returns how many labels did not fit into the queue.
func (o *Operator) Dropped() uint64 { return o.dropped }

// judge returns the operator's label for a reward. It always draws two random
// numbers, so that operators with the same seed differ only by their weaknesses.
func (o *Operator) judge(reward float64) float64 {
	low, high := o.cfg.RewardLow, o.cfg.RewardHigh
	mistaken := o.rng.Float64() < o.cfg.MistakeProbability
	noise := o.rng.NormFloat64() * o.cfg.NoiseStd
	value := reward
	if mistaken {
		value = low + high - min(max(reward, low), high)
	}
	value += noise
	if o.cfg.Levels > 1 {
		value = nearestLevel(value, low, high, o.cfg.Levels)
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
