package flightlog

import (
	"errors"
	"fmt"
	"math"

	"optibfm/controller"
	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// ErrWarmStart is the error of WhatIf for another λ or ρ if the belief at the start of
// the log, or that of a task to which the run switched, already holds labels. Those labels
// are not in the log.
var ErrWarmStart = errors.New("flightlog: lambda and rho cannot change: " +
	"a belief in the log holds labels of earlier runs")

// Params are the parameters that WhatIf changes. nil keeps the value of the run.
type Params struct {
	Kappa  *float64 // label gate, nats; fixed unless LabelsPerMinute is given too
	Lambda *float64 // prior
	Rho    *float64 // forgetting
	Beta   *float64 // weight of the uncertainty bonus, constant

	LabelsPerMinute *float64 // the operator's label budget; κ follows it
}

// Answer is the result of WhatIf on the states that the robot visited. With another
// belief the robot would have visited other states. WhatIf does not simulate that.
type Answer struct {
	Config controller.Config // with the changed parameters

	LoggedAsked uint64   // requests in the log
	Asked       uint64   // requests that the gate would have opened
	ByLabel     uint64   // of these: answered by the logged label about that tick
	ByReward    uint64   // of these: answered by the simulator's reward of that tick
	CantTell    uint64   // of these: the operator could not tell, as logged
	Unanswered  uint64   // of these: no answer in the log
	Unasked     uint64   // presses without a request, applied at the tick of the log
	Labels      uint64   // labels that entered the belief, including undone ones
	Entered     []uint64 // IDs of the logged labels among them, in order
	Missing     uint64   // periods without a record; the answer is then approximate

	Z          []float64 // ẑ, [d]
	ZNorm      float64
	LoggedZ    []float64 // ẑ of the run, nil if the replay could not compute it
	LoggedNorm float64   // NaN if LoggedZ is nil
	Cosine     float64   // between Z and LoggedZ; NaN if one is 0 or unknown

	// MeanBonus is the mean of β‖φ‖_{V⁻¹} over the ticks; NaN if β is not
	// constant. β changes no other field, because the visited states are fixed.
	MeanBonus float64
}

// WhatIf runs the learner and the label gate over the logged states with other
// parameters.
//
// With Kappa or LabelsPerMinute, the gate decides again which labels to ask for. The
// first available answer counts:
//
//   - the logged label about that tick, applied at the tick at which the run applied it
//   - the operator's logged "can't tell"
//   - the simulator's reward of that tick, applied at once
//
// Otherwise the request expires. WhatIf applies presses without a request at the tick
// of the log. A simulated operator's label for a known tick only answers a request about
// that tick. WhatIf leaves out labels that the run undid.
//
// Without Kappa and LabelsPerMinute, WhatIf applies the logged labels and undos at the
// ticks of the log.
//
// With Gate.Relearn it decides by its own labels whether the task has changed, and repeats
// a logged Keep if there is a task to keep.
func WhatIf(r *Reader, p Params) (Answer, error) {
	run, err := Verify(r)
	if err != nil {
		return Answer{}, err
	}
	answers, err := WhatIfAll(r, run, []Params{p}, nil)
	if err != nil {
		return Answer{}, err
	}
	return answers[0], nil
}

// WhatIfAll is WhatIf for several parameters, with one pass through the states. run is
// the result of Verify or Follow.
//
// After each tick, and for each i in params, WhatIfAll calls visit unless it is nil.
// dgap is the D-gap of the tick before its labels, NaN for a bad observation. belief
// includes the labels of the tick; visit must neither keep nor change it.
func WhatIfAll(r *Reader, run Result, params []Params,
	visit func(i int, t *controller.Tick, dgap float64, belief *posterior.Belief),
) ([]Answer, error) {
	known, err := collectAnswers(r)
	if err != nil {
		return nil, err
	}
	first, err := r.firstSnapshot()
	if err != nil {
		return nil, err
	}
	all := make([]*whatIf, len(params))
	for i, p := range params {
		if all[i], err = newWhatIf(r, p, known, first); err != nil {
			return nil, err
		}
	}
	_, err = r.each(func(record *Record) error {
		if record.Tick == nil {
			return nil
		}
		for i, w := range all {
			dgap, err := w.tick(record.Tick)
			if err != nil {
				return err
			}
			if visit != nil {
				visit(i, record.Tick, dgap, w.learner.Belief())
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	answers := make([]Answer, len(all))
	for i, w := range all {
		answers[i] = w.finish(run)
	}
	return answers, nil
}

// loggedAnswers are the labels of a log, by ID and by tick.
type loggedAnswers struct {
	presses  map[uint64]rewardsrc.Label
	about    map[uint64]loggedAnswer // the newest answer to a request of that tick, or label about it, unless undone
	cantTell map[uint64]bool         // ticks of requests that were answered "can't tell"
	undone   map[uint64]bool
	switches map[uint64]*Snapshot // of the task, by their tick
}

// loggedAnswer is a label that is not an unasked press.
type loggedAnswer struct {
	label   controller.AppliedLabel
	applied uint64 // the tick in which it was applied
}

// collectAnswers reads the labels of the whole log. It skips damaged parts.
func collectAnswers(r *Reader) (*loggedAnswers, error) {
	k := &loggedAnswers{
		presses: make(map[uint64]rewardsrc.Label), about: make(map[uint64]loggedAnswer),
		cantTell: make(map[uint64]bool), undone: make(map[uint64]bool), switches: make(map[uint64]*Snapshot),
	}
	asked := make(map[uint64]uint64) // request to tick
	var closed []uint64              // requests that were answered "can't tell"
	var applied []loggedAnswer
	_, err := r.each(func(record *Record) error {
		switch {
		case record.Label != nil:
			k.presses[record.Label.ID] = *record.Label
		case record.Snapshot != nil && record.Snapshot.Task != "":
			k.switches[record.Snapshot.Next] = record.Snapshot
		case record.Request != nil:
			asked[record.Request.ID] = record.Request.Tick
		case record.Tick != nil:
			for _, a := range record.Tick.Labels[:record.Tick.NumLabels] {
				applied = append(applied, loggedAnswer{a, record.Tick.Index})
				if a.Outcome == controller.ClosedRequest {
					closed = append(closed, a.Request)
				}
			}
		}
		return nil
	})
	for _, a := range applied {
		k.add(a, asked)
	}
	for _, id := range closed {
		if tick, ok := asked[id]; ok {
			k.cantTell[tick] = true
		}
	}
	for tick, a := range k.about {
		if k.undone[a.label.ID] {
			delete(k.about, tick)
		}
	}
	return k, err
}

// add adds a label. asked has the ticks of requests.
func (k *loggedAnswers) add(a loggedAnswer, asked map[uint64]uint64) {
	switch l := a.label; {
	case l.Outcome != controller.Applied || l.Kind == rewardsrc.Keep:
	case l.Kind == rewardsrc.Undo:
		k.undone[l.Undoes] = true
	case !k.unasked(l):
		tick, ok := asked[l.Request]
		if !ok {
			tick = l.From
		}
		k.about[tick] = a
	}
}

// unasked reports whether a label was a press without a request and without a tick. The
// time of such a press determines the ticks that it labels.
func (k *loggedAnswers) unasked(a controller.AppliedLabel) bool {
	press, ok := k.presses[a.ID]
	if !ok {
		return a.Request == 0 && a.From != a.To
	}
	return press.Request == 0 && press.Tick == rewardsrc.NoTick
}

// whatIf computes one Answer.
type whatIf struct {
	known   *loggedAnswers
	learner *controller.Learner
	changed bool             // in the tick before the task changed for this learner
	gate    *controller.Gate // nil: the logged labels are applied at the tick of the log
	beta    float64
	bonus   float64 // sum over the scored ticks
	scored  uint64
	pending map[uint64][]pendingLabel // answers to open requests, by the tick of their arrival
	answer  Answer
}

// pendingLabel is a label that waits for its tick.
type pendingLabel struct {
	label  rewardsrc.Label
	asked  uint64
	logged *controller.AppliedLabel // nil: the learner chooses the ticks
}

func newWhatIf(r *Reader, p Params, known *loggedAnswers, first *Snapshot) (*whatIf, error) {
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
	if (first != nil || len(known.switches) > 0) && (p.Lambda != nil || p.Rho != nil) {
		return nil, ErrWarmStart
	}
	learner, err := r.newLearner(cfg)
	if err != nil {
		return nil, fmt.Errorf("flightlog: what-if parameters: %w", err)
	}
	if first != nil {
		if err := first.restore(learner); err != nil {
			return nil, err
		}
	}
	w := &whatIf{known: known, learner: learner, beta: math.NaN(), pending: make(map[uint64][]pendingLabel)}
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

// firstSnapshot returns the first snapshot, nil if its belief is the prior of the configuration,
// without a label.
func (r *Reader) firstSnapshot() (*Snapshot, error) {
	prior, err := r.loggedLearner()
	if err != nil {
		return nil, err
	}
	snapshots, _, err := r.findSnapshots()
	if err != nil {
		return nil, err
	}
	if len(snapshots) == 0 {
		return nil, r.noSnapshot()
	}
	if snapshots[0].hash == prior.Belief().Hash() {
		return nil, nil
	}
	snapshot := r.loadSnapshot(snapshots[0])
	if snapshot == nil {
		return nil, ErrNoSnapshot
	}
	return snapshot, nil
}

// switchTask repeats a switch of the task before t.
func (w *whatIf) switchTask(t *controller.Tick) error {
	if !t.Flags.Has(controller.FlagSwitched) {
		return nil
	}
	s := w.known.switches[t.Index]
	if s == nil {
		return fmt.Errorf("flightlog: tick %d: the run switched to a saved task, and its belief is missing: "+
			"what-if cannot continue", t.Index)
	}
	w.changed = false
	if w.gate != nil {
		w.gate.Forget()
	}
	return s.restore(w.learner)
}

// tick handles one logged tick and returns its D-gap before the labels.
func (w *whatIf) tick(t *controller.Tick) (dgap float64, err error) {
	if err := w.switchTask(t); err != nil {
		return 0, err
	}
	dgap = math.NaN()
	armed := t.Flags.Has(controller.FlagArmed)
	if w.changed {
		w.learner.Relearn(t.Index)
	}
	if armed {
		w.learner.Advance(t.Elapsed)
	}
	mayAsk := armed && !t.Flags.Has(controller.FlagUnreachable)
	if w.gate != nil {
		w.gate.Expire(t.Index)
		if mayAsk {
			w.gate.Advance(t.Elapsed)
		}
	}
	if !t.Flags.Has(controller.FlagBadObs) {
		dgap = w.observe(t, mayAsk)
	}
	for _, l := range w.pending[t.Index] {
		w.apply(l)
	}
	delete(w.pending, t.Index)
	for _, logged := range t.Labels[:t.NumLabels] {
		if w.repeats(logged) {
			w.apply(w.restore(logged))
		}
	}
	w.learner.Settle(t.Index)
	w.changed = armed && !t.Flags.Has(controller.FlagStopped) && w.learner.Changed()
	return dgap, nil
}

// observe adds a state and asks about it, as the agent does.
func (w *whatIf) observe(t *controller.Tick, mayAsk bool) (dgap float64) {
	if t.Teaches() {
		w.learner.Observe(t.Index, t.SenseAt, t.Phi, t.Obs)
	}
	normSq := w.learner.Gain(t.Phi, t.Obs)
	w.bonus += w.beta * math.Sqrt(normSq)
	w.scored++
	dgap = posterior.DGap(normSq, w.learner.LabelWeight())
	if w.gate == nil || !mayAsk || !w.gate.Passes(normSq) {
		return dgap
	}
	if request, ok := w.gate.Ask(t.Index, t.SenseAt, dgap); ok {
		w.answer.Asked++
		w.answerRequest(t, request)
	}
	return dgap
}

// answerRequest looks for the answer to a request about t, the current tick.
func (w *whatIf) answerRequest(t *controller.Tick, request rewardsrc.Request) {
	if known, ok := w.known.about[t.Index]; ok {
		w.answer.ByLabel++
		at := max(known.applied, t.Index)
		w.pending[at] = append(w.pending[at], pendingLabel{
			label: rewardsrc.Label{
				ID: known.label.ID, Request: request.ID, Tick: t.Index,
				Value: known.label.Value, Weight: known.label.Confidence, Kind: known.label.Kind,
			},
			logged: &known.label,
		})
		return
	}
	if w.known.cantTell[t.Index] {
		w.answer.CantTell++
		w.gate.Answer(request.ID)
		return
	}
	if t.Flags.Has(controller.FlagReward) {
		w.answer.ByReward++
		w.apply(pendingLabel{
			label: rewardsrc.Label{
				Request: request.ID, Tick: t.Index, Value: t.Reward, Weight: 1, Kind: rewardsrc.Value,
			},
			asked: t.Index,
		})
	}
}

// repeats reports whether the what-if applies a logged label at its tick in the log.
func (w *whatIf) repeats(a controller.AppliedLabel) bool {
	if a.Outcome != controller.Applied {
		return false
	}
	if a.Kind == rewardsrc.Keep {
		return w.learner.Keepable()
	}
	if w.gate == nil {
		return true
	}
	return a.Kind.Teaches() && w.known.unasked(a) && !w.known.undone[a.ID]
}

// restore returns the label as it was before the run applied it.
func (w *whatIf) restore(a controller.AppliedLabel) pendingLabel {
	label := rewardsrc.Label{
		ID: a.ID, Value: a.Value, Weight: a.Confidence, Kind: a.Kind, Undoes: a.Undoes, Tick: a.About,
	}
	if a.Request == 0 && a.Kind.Teaches() {
		w.answer.Unasked++
	}
	if press, ok := w.known.presses[a.ID]; ok && w.known.unasked(a) {
		label.Tick, label.At = rewardsrc.NoTick, press.At
		return pendingLabel{label: label}
	}
	return pendingLabel{label: label, logged: &a}
}

// learn gives a label to the learner. A logged value keeps its ticks.
func (w *whatIf) learn(l pendingLabel) controller.AppliedLabel {
	if l.logged != nil && l.label.Kind.Teaches() {
		return w.learner.ApplyTo(l.label, l.logged.From, l.logged.To)
	}
	return w.learner.Apply(l.label, l.asked)
}

func (w *whatIf) apply(l pendingLabel) {
	result := w.learn(l)
	if result.Outcome == controller.Applied && l.label.Kind.Teaches() {
		w.answer.Labels++
		if l.label.ID != 0 {
			w.answer.Entered = append(w.answer.Entered, l.label.ID)
		}
	}
	switch {
	case w.gate == nil:
	case l.label.Request != 0:
		w.gate.Answer(l.label.Request)
	case result.Outcome == controller.Applied:
		w.gate.Hear()
	}
}

func (w *whatIf) finish(run Result) Answer {
	a := w.answer
	a.LoggedAsked, a.Missing = run.Summary.Asked, run.Summary.Dropped
	a.LoggedZ, a.LoggedNorm = run.Z, run.ZNorm
	a.Unanswered = a.Asked - a.ByLabel - a.ByReward - a.CantTell
	a.Z = make([]float64, w.learner.Belief().TaskDim())
	a.Config.Estimate(a.Z, w.learner.Belief(), w.learner.Scale())
	a.ZNorm = norm(a.Z)
	a.Cosine = Cosine(a.Z, a.LoggedZ)
	a.MeanBonus = math.NaN()
	if w.scored > 0 {
		a.MeanBonus = w.bonus / float64(w.scored)
	}
	return a
}

// Cosine returns xᵀy/(‖x‖‖y‖), NaN if that is not defined.
func Cosine(x, y []float64) float64 {
	if len(x) != len(y) {
		return math.NaN()
	}
	dot := 0.0
	for i := range x {
		dot += x[i] * y[i]
	}
	return dot / (norm(x) * norm(y))
}
