package flightlog

import (
	"errors"
	"fmt"
	"math"

	"optibfm/controller"
	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// ErrWarmStart is returned by WhatIf for another λ or ρ where the log starts
// with a belief that already holds labels, which are not in the log.
var ErrWarmStart = errors.New("flightlog: the log starts with labels in its belief that it does not hold: lambda and rho cannot be changed")

// Params are what WhatIf changes; nil leaves a parameter as it was.
type Params struct {
	Kappa  *float64 // label gate, nats; fixed, unless LabelsPerMinute is given too
	Lambda *float64 // prior
	Rho    *float64 // forgetting
	Beta   *float64 // weight of the uncertainty bonus, constant

	LabelsPerMinute *float64 // what the operator can give: κ follows
}

// Answer is what WhatIf computed on the states that the robot saw. The robot
// would have gone elsewhere with another belief; that is not simulated.
type Answer struct {
	Config controller.Config // with the changed parameters

	Ticks       uint64
	LoggedAsked uint64 // requests in the log
	Asked       uint64 // requests that the gate would have opened
	ByLabel     uint64 // of these: answered by the logged label about that tick
	ByReward    uint64 // answered by the simulator's reward of that tick
	CantTell    uint64 // the operator could not tell, as logged
	Unanswered  uint64 // the log has no answer
	Unasked     uint64 // presses that nobody had asked for, applied as they came
	Labels      uint64 // labels that entered the belief, undone ones too
	Missing     uint64 // periods without a record: the answer is approximate

	Z          []float64 // ẑ, [d]
	ZNorm      float64
	LoggedZ    []float64 // the run's own ẑ, nil where replay does not know it
	LoggedNorm float64   // NaN where LoggedZ is nil
	Cosine     float64   // between the two; NaN where one is 0 or not known

	// MeanBonus is the mean of β‖φ‖_{V⁻¹} over the ticks. β changes nothing
	// else here: it decides where the robot goes, not what it learns there.
	// NaN for a schedule of β that is not constant.
	MeanBonus float64
}

// WhatIf runs the learner and the label gate over the logged states with other
// parameters.
//
// With Kappa or LabelsPerMinute, the gate asks anew. A request about a tick is answered by the
// logged label about that tick, at the tick when it was applied in the run; else
// by the simulator's reward at once; else by nobody, and it expires. Presses
// that the operator made unasked are applied as they came; labels that an
// oracle gave unasked for a known tick are only answers. Labels that were
// undone in the run are left out.
//
// Without them, the logged labels are applied as they came, undos too.
func WhatIf(r *Reader, p Params) (Answer, error) {
	verified, err := Verify(r)
	if err != nil {
		return Answer{}, err
	}
	known, err := CollectAnswers(r)
	if err != nil {
		return Answer{}, err
	}
	w, err := newWhatIf(r, p, known)
	if err != nil {
		return Answer{}, err
	}
	if _, err := r.each(w.record); err != nil {
		return Answer{}, err
	}
	w.answer.LoggedAsked, w.answer.Missing = verified.Summary.Asked, verified.Summary.Dropped
	w.answer.LoggedZ, w.answer.LoggedNorm = verified.Z, verified.ZNorm
	return w.finish(), nil
}

// Answers are what a log holds about labels, by ID and by the tick that they
// are about: what WhatIf answers requests with.
type Answers struct {
	presses  map[uint64]rewardsrc.Label
	about    map[uint64]KnownAnswer // the newest label about exactly that tick
	cantTell map[uint64]bool        // ticks of requests that were answered so
	undone   map[uint64]bool
}

// KnownAnswer is a label about exactly one tick.
type KnownAnswer struct {
	Label   controller.AppliedLabel
	Applied uint64 // the tick in which it was applied
}

// CollectAnswers reads what is known about labels in the whole log. Damaged
// places are passed over.
func CollectAnswers(r *Reader) (*Answers, error) {
	k := &Answers{
		presses: make(map[uint64]rewardsrc.Label), about: make(map[uint64]KnownAnswer),
		cantTell: make(map[uint64]bool), undone: make(map[uint64]bool),
	}
	asked := make(map[uint64]uint64) // request to tick
	var refused []uint64             // requests that were answered "can't tell"
	_, err := r.each(func(record *Record) error {
		switch {
		case record.Label != nil:
			k.presses[record.Label.ID] = *record.Label
		case record.Request != nil:
			asked[record.Request.ID] = record.Request.Tick
		case record.Tick != nil:
			for _, a := range record.Tick.Labels[:record.Tick.NumLabels] {
				k.add(a, record.Tick.Index)
				if a.Outcome == controller.ClosedRequest {
					refused = append(refused, a.Request)
				}
			}
		}
		return nil
	})
	for _, id := range refused {
		if tick, ok := asked[id]; ok {
			k.cantTell[tick] = true
		}
	}
	for tick, a := range k.about {
		if k.undone[a.Label.ID] {
			delete(k.about, tick)
		}
	}
	return k, err
}

func (k *Answers) add(a controller.AppliedLabel, tick uint64) {
	switch {
	case a.Outcome != controller.Applied:
	case a.Kind == rewardsrc.Undo:
		k.undone[a.Undoes] = true
	case a.From == a.To && !k.Volunteered(a):
		k.about[a.From] = KnownAnswer{a, tick}
	}
}

// About returns the newest label about exactly this tick that was not undone.
func (k *Answers) About(tick uint64) (KnownAnswer, bool) {
	known, ok := k.about[tick]
	return known, ok
}

// CantTell reports whether a request about this tick was answered so.
func (k *Answers) CantTell(tick uint64) bool { return k.cantTell[tick] }

// Undone reports whether the label of this ID was taken back.
func (k *Answers) Undone(id uint64) bool { return k.undone[id] }

// Volunteered reports whether a label was a press that nobody had asked for,
// about a moment that only its time tells.
func (k *Answers) Volunteered(a controller.AppliedLabel) bool {
	press, ok := k.presses[a.ID]
	if !ok {
		return a.Request == 0 && a.From != a.To
	}
	return press.Request == 0 && press.Tick == rewardsrc.NoTick
}

type whatIf struct {
	known   *Answers
	learner *controller.Learner
	gate    *controller.Gate // nil: the logged labels are applied as they came
	beta    float64
	bonus   float64
	scored  uint64 // ticks with a bonus
	// pending are answers to open requests, by the tick in which they come.
	pending map[uint64][]answer
	answer  Answer
}

// answer is a label on its way to the learner.
type answer struct {
	label rewardsrc.Label
	asked uint64
}

func newWhatIf(r *Reader, p Params, known *Answers) (*whatIf, error) {
	cfg := r.meta.Control
	if p.Kappa != nil {
		cfg.Gate.LabelsPerMinute = 0
	}
	override(&cfg.Gate.Kappa, p.Kappa)
	override(&cfg.Gate.LabelsPerMinute, p.LabelsPerMinute)
	override(&cfg.Lambda, p.Lambda)
	override(&cfg.Rho, p.Rho)
	if p.Beta != nil {
		cfg.Beta = controller.Beta{Schedule: controller.Constant, Value: *p.Beta}
	}
	learner, err := r.startLearner(cfg, p.Lambda != nil || p.Rho != nil)
	if err != nil {
		return nil, err
	}
	w := &whatIf{known: known, learner: learner, beta: math.NaN(), pending: make(map[uint64][]answer)}
	w.answer.Config = cfg
	if cfg.Beta.Schedule == controller.Constant {
		w.beta = cfg.Beta.Value
	}
	if p.Kappa != nil || p.LabelsPerMinute != nil {
		cfg.Gate.Off = false
		w.gate = controller.NewGate(cfg.Gate, learner.LabelWeight(), r.meta.Robot.Period)
	}
	return w, nil
}

func override(dst *float64, value *float64) {
	if value != nil {
		*dst = *value
	}
}

// startLearner returns a learner with the belief that the log starts with.
func (r *Reader) startLearner(cfg controller.Config, changed bool) (*controller.Learner, error) {
	learner, err := controller.NewLearner(cfg, r.meta.Shape.Latent, r.meta.Robot.Period)
	if err != nil {
		return nil, fmt.Errorf("flightlog: what-if parameters: %w", err)
	}
	logged, err := r.newLearner(r.meta.Control)
	if err != nil {
		return nil, err
	}
	snapshots, err := r.findSnapshots()
	if err != nil {
		return nil, err
	}
	if len(snapshots) == 0 {
		return nil, r.noSnapshot()
	}
	first := snapshots[0]
	if first.hash == logged.Belief().Hash() { // the prior: that of the new parameters takes its place
		return learner, nil
	}
	if changed {
		return nil, ErrWarmStart
	}
	snapshot := r.loadSnapshot(first)
	if snapshot == nil {
		return nil, ErrNoSnapshot
	}
	if err := learner.Belief().Restore(snapshot.State); err != nil {
		return nil, fmt.Errorf("flightlog: the first snapshot: %w: %w", ErrDamaged, err)
	}
	return learner, nil
}

func (w *whatIf) record(record *Record) error {
	if record.Tick != nil {
		w.tick(record.Tick)
	}
	return nil
}

func (w *whatIf) tick(t *controller.Tick) {
	w.answer.Ticks++
	armed := t.Flags.Has(controller.FlagArmed)
	if armed {
		w.learner.Advance(t.Elapsed)
	}
	asks := armed && !t.Flags.Has(controller.FlagUnreachable)
	if w.gate != nil {
		w.gate.Expire(t.Index)
		if asks {
			w.gate.Advance(t.Elapsed)
		}
	}
	if !t.Flags.Has(controller.FlagBadObs) {
		w.appraise(t, asks)
	}
	for _, a := range w.pending[t.Index] {
		w.apply(a)
	}
	delete(w.pending, t.Index)
	for _, logged := range t.Labels[:t.NumLabels] {
		if w.wanted(logged) {
			w.apply(w.again(logged))
		}
	}
}

// appraise observes a state and asks about it, as the agent does.
func (w *whatIf) appraise(t *controller.Tick, asks bool) {
	w.learner.Observe(t.Index, t.SenseAt, t.Phi)
	normSq := w.learner.Belief().NormSq(t.Phi)
	w.bonus += w.beta * math.Sqrt(normSq)
	w.scored++
	if w.gate == nil {
		return
	}
	if !asks || !w.gate.Passes(normSq) {
		return
	}
	dgap := posterior.DGap(normSq, w.learner.LabelWeight())
	if request, ok := w.gate.Ask(t.Index, t.SenseAt, dgap); ok {
		w.answer.Asked++
		w.find(t, request)
	}
}

// find looks for the answer to a request about t, the present tick.
func (w *whatIf) find(t *controller.Tick, request rewardsrc.Request) {
	if known, ok := w.known.About(t.Index); ok {
		w.answer.ByLabel++
		at := max(known.Applied, t.Index)
		w.pending[at] = append(w.pending[at], answer{
			label: rewardsrc.Label{
				ID: known.Label.ID, Request: request.ID, Tick: t.Index,
				Value: known.Label.Value, Weight: known.Label.Confidence, Kind: rewardsrc.Value,
			},
			asked: t.Index,
		})
		return
	}
	if w.known.CantTell(t.Index) {
		w.answer.CantTell++
		w.gate.Answer(request.ID)
		return
	}
	if t.Flags.Has(controller.FlagReward) {
		w.answer.ByReward++
		w.apply(answer{
			label: rewardsrc.Label{
				Request: request.ID, Tick: t.Index, Value: t.Reward, Weight: 1, Kind: rewardsrc.Value,
			},
			asked: t.Index,
		})
	}
}

// wanted reports whether a label is applied when its time comes in the log.
func (w *whatIf) wanted(a controller.AppliedLabel) bool {
	if a.Outcome != controller.Applied {
		return false
	}
	if w.gate == nil {
		return true
	}
	return a.Kind == rewardsrc.Value && w.known.Volunteered(a) && !w.known.Undone(a.ID)
}

// again turns what was applied back into the label that it was.
func (w *whatIf) again(a controller.AppliedLabel) answer {
	label := rewardsrc.Label{ID: a.ID, Value: a.Value, Weight: a.Confidence, Kind: a.Kind, Undoes: a.Undoes, Tick: a.About}
	if a.Request == 0 && a.Kind == rewardsrc.Value {
		w.answer.Unasked++
	}
	if press, ok := w.known.presses[a.ID]; ok && w.known.Volunteered(a) {
		label.Tick, label.At = rewardsrc.NoTick, press.At
	}
	return answer{label: label}
}

func (w *whatIf) apply(a answer) {
	result := w.learner.Apply(a.label, a.asked)
	if result.Outcome == controller.Applied && a.label.Kind == rewardsrc.Value {
		w.answer.Labels++
	}
	if w.gate != nil && a.label.Request != 0 {
		w.gate.Answer(a.label.Request)
	}
}

func (w *whatIf) finish() Answer {
	a := w.answer
	a.Unanswered = a.Asked - a.ByLabel - a.ByReward - a.CantTell
	a.Z = make([]float64, w.learner.Belief().Dim())
	w.learner.Belief().Mean(a.Z)
	a.ZNorm = norm(a.Z)
	a.Cosine = cosine(a.Z, a.LoggedZ)
	a.MeanBonus = math.NaN()
	if w.scored > 0 {
		a.MeanBonus = w.bonus / float64(w.scored)
	}
	return a
}

// cosine returns xᵀy/(‖x‖‖y‖), NaN where that is not defined.
func cosine(x, y []float64) float64 {
	if len(x) != len(y) {
		return math.NaN()
	}
	dot := 0.0
	for i := range x {
		dot += x[i] * y[i]
	}
	return dot / (norm(x) * norm(y))
}
