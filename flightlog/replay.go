package flightlog

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"optibfm/controller"
	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// tolerance is the largest relative difference of results of a logarithm. The Go
// compiler may round it differently on another CPU.
const tolerance = 1e-12

// ErrNoSnapshot is returned if a log has no snapshot from which a replay can start.
var ErrNoSnapshot = errors.New("flightlog: the log has no snapshot of the belief to start from; " +
	"it can be summarised, not replayed")

// Result is the result of a replay.
type Result struct {
	Summary    Summary
	Verified   uint64      // ticks computed again and compared
	Differing  uint64      // of these, ticks that differ
	First      *Difference // the first one, nil if all agree
	Unverified uint64      // ticks between a gap and the next snapshot
	Gaps       []Gap
	Damage     []error               // damaged parts in the file
	Cut        *Cut                  // the missing end
	Lacks      error                 // ErrUnverifiable; nil if ticks were compared
	Z          []float64             // ẑ after the last tick, [d]; nil if unknown
	ZNorm      float64               // NaN if Z is nil
	Noise      controller.NoiseState // after the last tick; zero if Z is nil
	Learner    *controller.Learner   // after the last tick; nil if Z is nil
}

// OK reports whether nothing in the log is damaged and everything that could be compared
// agrees. A cut end is OK. A log none of whose ticks could be compared is not.
func (r *Result) OK() bool {
	return r.First == nil && len(r.Damage) == 0 && r.Lacks == nil && (r.Verified > 0 || r.Summary.Ticks == 0)
}

// Difference is a field that the replay computed differently.
type Difference struct {
	Tick     uint64
	Field    string
	Logged   string
	Computed string
}

func (d *Difference) String() string {
	return fmt.Sprintf("tick %d: %s: logged %s, computed %s", d.Tick, d.Field, d.Logged, d.Computed)
}

// Gap is a range of ticks that the replay could not compare.
type Gap struct {
	Tick    uint64 // the first tick that could not be compared
	Missing uint64 // periods without a record before it
	Reason  string
	Resumed uint64 // the tick at which a snapshot ended the gap
	Ended   bool   // Resumed is valid
}

// String describes the gap in one line.
func (g Gap) String() string {
	text := fmt.Sprintf("not verified from tick %d: %s", g.Tick, g.Reason)
	if g.Missing > 0 {
		text += fmt.Sprintf(" (%s periods)", Grouped(g.Missing))
	}
	if !g.Ended {
		return text + "; no snapshot follows"
	}
	return text + fmt.Sprintf("; resumed at tick %d", g.Resumed)
}

// place is the place of a snapshot in the file.
type place struct {
	next uint64
	hash uint64
	part int // index in Reader.parts
	nth  int // snapshot of that part
}

// Verify computes the belief again from the logged φ and labels, with the code that ran
// on the robot, and compares every tick: hashes, norms and label weights bit for bit,
// the D-gap and log det V to 1e-12, the z of the ticks with the limits of
// controller.explore, and the commands to a start or rest pose with the rate limits.
// It takes the belief of a switch of the task from its snapshot.
// After a dropped tick it resumes at the next snapshot. Result holds
// the differences. An error means that the file is unreadable or that the log has
// nothing to compare. With ErrUnverifiable, Result holds the summary.
func Verify(r *Reader) (Result, error) { return Follow(r, nil) }

// Follow is Verify and calls visit after every tick with the belief of the replay. The
// belief is nil if it is unknown: between a gap and the next snapshot. visit must
// neither keep nor change t and belief.
func Follow(r *Reader, visit func(t *controller.Tick, belief *posterior.Belief)) (Result, error) {
	if err := r.Unverifiable(); err != nil {
		return summarise(r, err)
	}
	replay, err := newReplay(r)
	if err != nil {
		return Result{}, err
	}
	counted := newTally()
	damage, err := r.each(func(record *Record) error {
		if record.Tick == nil {
			counted.add(record)
			return nil
		}
		err := replay.tick(record.Tick)
		counted.add(record)
		if err != nil || visit == nil {
			return err
		}
		visit(record.Tick, replay.belief())
		return nil
	})
	result := replay.result
	result.Summary = counted.summary(r.meta.Clock)
	result.Damage, result.Cut, result.ZNorm = damage, r.cut, math.NaN()
	if err != nil {
		return result, err
	}
	if replay.synced {
		result.Z = make([]float64, r.meta.Shape.Latent)
		r.meta.Control.Estimate(result.Z, replay.learner.Belief(), replay.learner.Scale())
		result.ZNorm = norm(result.Z)
		result.Noise = replay.learner.Noise()
		result.Learner = replay.learner
	}
	return result, nil
}

// summarise returns the result of a log that cannot be verified.
func summarise(r *Reader, lacks error) (Result, error) {
	summary, damage, err := Summarise(r)
	result := Result{
		Summary: summary, Unverified: summary.Ticks, Damage: damage, Cut: r.cut, ZNorm: math.NaN(), Lacks: lacks,
	}
	return result, cmp.Or(err, lacks)
}

// each calls f for every message. It skips damaged parts and returns them.
func (r *Reader) each(f func(*Record) error) (damage []error, err error) {
	for record, err := range r.Records() {
		if errors.Is(err, ErrDamaged) {
			damage = append(damage, err)
			continue
		}
		if err != nil {
			return damage, err
		}
		if err := f(record); err != nil {
			return damage, err
		}
	}
	return damage, nil
}

// replay follows a log tick by tick.
type replay struct {
	reader    *Reader
	learner   *controller.Learner
	pace      *controller.Pace // nil: κ was fixed
	explore   *exploration
	motion    *motion
	progress  *controller.Proficiency
	before    controller.Flags // of the tick before
	snapshots []place          // by next
	switches  map[uint64]place // of the task, by next
	result    Result
	synced    bool   // the belief is known
	started   bool   // a tick was read
	last      uint64 // index of the last tick
	whole     uint64 // from this tick on no record is missing
	missing   []span // ticks without a record
}

// span is a range of ticks, inclusive.
type span struct{ from, to uint64 }

func newReplay(r *Reader) (*replay, error) {
	snapshots, switches, err := r.findSnapshots()
	if err != nil {
		return nil, err
	}
	if len(snapshots) == 0 {
		return nil, r.noSnapshot()
	}
	learner, err := r.loggedLearner()
	if err != nil {
		return nil, err
	}
	p := &replay{
		reader: r, learner: learner, explore: newExploration(&r.meta), motion: newMotion(r.meta.Robot),
		snapshots: snapshots, switches: switches,
	}
	p.progress = controller.NewProficiency(r.meta.Control.Gate, r.meta.Robot.Period)
	if gate := r.meta.Control.Gate; gate.LabelsPerMinute > 0 {
		p.pace = controller.NewPace(gate, r.meta.Robot.Period)
	}
	return p, nil
}

// noSnapshot returns ErrNoSnapshot with the damage that may be its cause.
func (r *Reader) noSnapshot() error {
	if damage := r.Damage(); len(damage) > 0 {
		return fmt.Errorf("%w: %w", ErrNoSnapshot, damage[0])
	}
	return ErrNoSnapshot
}

func (r *Reader) loggedLearner() (*controller.Learner, error) {
	learner, err := r.newLearner(r.meta.Control)
	if err != nil {
		return nil, fmt.Errorf("flightlog: the logged configuration: %w", err)
	}
	return learner, nil
}

// newLearner returns a learner with the rules of the program that wrote the log.
func (r *Reader) newLearner(cfg controller.Config) (*controller.Learner, error) {
	learner, err := controller.NewLearner(cfg, r.meta.Shape.Latent, r.meta.Robot.Period)
	if err != nil {
		return nil, err
	}
	learner.UseFormerRules(controller.FormerRules{
		EqualWeights:      r.meta.Format < formatWithNews,
		ConstantLimit:     r.meta.Format < formatWithGrowth,
		IgnoreCorrelation: r.meta.Format < formatWithCorrelation,
	})
	return learner, nil
}

// findSnapshots locates the snapshots and sorts them. In the file they need not be in
// order with the ticks, because they reach the writer on another path. It returns those
// of switches of the task apart.
func (r *Reader) findSnapshots() (found []place, switches map[uint64]place, err error) {
	switches = make(map[uint64]place)
	for i, p := range r.parts {
		var failed error
		nth := 0
		r.visit(p, 1<<snapshotChannel, func(record *Record, err error) bool {
			if err != nil && !errors.Is(err, ErrDamaged) {
				failed = err
				return false
			}
			if err != nil || record.Snapshot == nil {
				return true
			}
			s := record.Snapshot
			at := place{s.Next, s.Hash, i, nth}
			nth++
			if s.Task == "" {
				found = append(found, at)
			} else {
				switches[s.Next] = at
			}
			return true
		})
		if failed != nil {
			return nil, nil, failed
		}
	}
	slices.SortStableFunc(found, func(a, b place) int { return cmp.Compare(a.next, b.next) })
	return found, switches, nil
}

func (r *Reader) loadSnapshot(p place) (snapshot *Snapshot) {
	nth := 0
	r.visit(r.parts[p.part], 1<<snapshotChannel, func(record *Record, err error) bool {
		if err == nil && record.Snapshot != nil {
			if nth == p.nth {
				snapshot = record.Snapshot
				return false
			}
			nth++
		}
		return true
	})
	return snapshot
}

// belief returns the belief, nil if it is unknown.
func (p *replay) belief() *posterior.Belief {
	if !p.synced {
		return nil
	}
	return p.learner.Belief()
}

// tick computes one tick again and compares it.
func (p *replay) tick(t *controller.Tick) error {
	gap := p.noteGap(t)
	c := comparison{tick: t.Index, on: p.synced}
	if err := p.takeSnapshots(t, &c); err != nil {
		return err
	}
	if !p.started && !p.synced && len(p.result.Gaps) == 0 {
		p.missing = append(p.missing, span{to: t.Index - min(t.Index, 1)})
		p.lose(t.Index, 0, "no snapshot before the first tick")
	}
	p.started, p.last = true, t.Index
	if err := p.switchTask(t); err != nil {
		return err
	}
	p.forgetTask(t)
	c.on = p.synced
	p.follow(t, gap, &c)
	p.explore.check(t, gap, &c)
	p.motion.check(t, gap, &c)
	p.observe(t, &c)
	for i := range t.Labels[:t.NumLabels] {
		p.reapply(t, &t.Labels[i], &c)
	}
	p.followReaction(t, &c)
	p.settle(t, &c)
	p.judge(t, gap, &c)
	if !p.synced {
		p.result.Unverified++
		return nil
	}
	belief := p.learner.Belief()
	c.near("logdet", t.LogDet, belief.LogDet())
	c.same("hash", t.Hash, belief.Hash())
	p.result.Verified++
	if c.first == nil {
		return nil
	}
	p.result.Differing++
	if p.result.First == nil {
		p.result.First = c.first
	}
	return nil
}

// follow computes κ again from the requests and the reachability of the operator. After
// a gap it continues from the logged κ.
func (p *replay) follow(t *controller.Tick, gap bool, c *comparison) {
	if p.pace == nil {
		return
	}
	if t.Flags.Has(controller.FlagArmed) && !t.Flags.Has(controller.FlagUnreachable) {
		p.pace.Advance(t.Elapsed)
	}
	if gap {
		p.pace.Resume(t.Kappa)
	}
	c.near("kappa", t.Kappa, p.pace.Kappa())
	if t.Flags.Has(controller.FlagAsked) && !t.Flags.Has(controller.FlagUncounted) {
		p.pace.Asked()
	}
}

// observe computes the part of a tick before its labels.
func (p *replay) observe(t *controller.Tick, c *comparison) {
	if t.Flags.Has(controller.FlagArmed) {
		p.learner.Advance(t.Elapsed)
	}
	if t.Flags.Has(controller.FlagBadObs) {
		return
	}
	if t.Teaches() {
		p.learner.Observe(t.Index, t.SenseAt, t.Phi, t.Obs)
	}
	if !c.on {
		return
	}
	normSq := p.learner.Gain(t.Phi, t.Obs)
	c.bits("norm_sq", t.NormSq, normSq)
	c.near("dgap", t.DGap, posterior.DGap(normSq, p.learner.LabelWeight()))
}

// settle repeats the revision of a label's weight. After a gap the replay does not have all labels
// that the robot had, and follows the log.
func (p *replay) settle(t *controller.Tick, c *comparison) {
	own, err := p.learner.Resettle(t.Index, t.Revised)
	if err != nil {
		p.loseBy(err, "revised label", t.Index, c)
	}
	if len(p.missing) == 0 {
		c.same("revised label", t.Revised.ID, own.ID)
		c.bits("revised weight", t.Revised.After, own.After)
		c.bits("weight before the revision", t.Revised.Before, own.Before)
	}
	c.bits("sigma", t.Sigma, p.learner.Sigma())
	c.bits("zero", t.Zero, p.learner.Zero())
}

// judge decides again whether the task is learnt. After a gap the replay does not know all labels
// that the robot had, and follows the log.
func (p *replay) judge(t *controller.Tick, gap bool, c *comparison) {
	if len(p.missing) == 0 && t.Predicted != p.learner.Predicted() {
		c.note("predicted", fmt.Sprint(t.Predicted), fmt.Sprint(p.learner.Predicted()))
	}
	logged := t.Flags.Has(controller.FlagLearnt)
	if p.reader.meta.Format >= formatWithEvidence {
		p.weigh(t, c)
	}
	if gap || p.reader.meta.Format < formatWithInterval { // by another rule
		p.progress.Resume(logged)
		return
	}
	if kept(t) {
		p.progress.Resume(false)
	}
	learnt := p.progress.Learnt()
	if t.Flags.Has(controller.FlagArmed) && !t.Flags.Has(controller.FlagStopped) {
		learnt = p.progress.Advance(t)
	}
	if len(p.missing) == 0 && learnt != logged {
		c.note("learnt", fmt.Sprint(logged), fmt.Sprint(learnt))
	}
	if learnt != logged {
		p.progress.Resume(logged)
	}
}

// weigh computes the evidence of a changed task again, and what follows from it.
func (p *replay) weigh(t *controller.Tick, c *comparison) {
	if len(p.missing) > 0 {
		return
	}
	own := p.learner.Evidence()
	c.near("evidence of a change", t.Evidence.Change, own.Change)
	c.same("labels of that evidence", t.Evidence.Labels, own.Labels)
	c.near("skill", t.Evidence.Skill, own.Skill)
	c.near("error of the skill", t.Evidence.SkillError, own.SkillError)
	if p.reader.meta.Format >= formatWithShortfall {
		c.near("shortfall", t.Evidence.Shortfall, own.Shortfall)
	}
	running := t.Flags.Has(controller.FlagArmed) && !t.Flags.Has(controller.FlagStopped)
	if changed := running && p.learner.Changed(); changed != t.Flags.Has(controller.FlagChanged) {
		c.note("changed", fmt.Sprint(!changed), fmt.Sprint(changed))
	}
	if keepable := p.learner.Keepable(); keepable != t.Flags.Has(controller.FlagKeepable) {
		c.note("keepable", fmt.Sprint(!keepable), fmt.Sprint(keepable))
	}
}

// kept reports whether the operator kept the former task in a tick.
func kept(t *controller.Tick) bool {
	return slices.ContainsFunc(t.Labels[:t.NumLabels], func(l controller.AppliedLabel) bool { return keeps(&l) })
}

// keeps reports whether a label restored the former task.
func keeps(l *controller.AppliedLabel) bool {
	return l.Kind == rewardsrc.Keep && l.Outcome == controller.Applied
}

// switchTask repeats a switch of the task before t. It replaces all that the learner has, so
// missing ticks before it no longer matter.
func (p *replay) switchTask(t *controller.Tick) error {
	if !t.Flags.Has(controller.FlagSwitched) {
		return nil
	}
	p.before, p.whole = 0, t.Index
	p.progress.Resume(false)
	s, ok := p.switches[t.Index]
	if !ok {
		p.missing = append(p.missing, span{to: t.Index - min(t.Index, 1)})
		p.lose(t.Index, 0, "the run switched to a saved task, and its belief is missing")
		return nil
	}
	p.missing = nil
	return p.restore(s, t.Index)
}

// forgetTask repeats that the robot began a task again after the tick before. After a gap the
// replay does not know the labels that the robot kept.
func (p *replay) forgetTask(t *controller.Tick) {
	changed := p.before.Has(controller.FlagChanged)
	p.before = t.Flags
	if !changed {
		return
	}
	p.learner.Relearn(t.Index)
	p.progress.Resume(false)
	if p.synced && len(p.missing) > 0 {
		p.lose(t.Index, 0, "the task was forgotten, and the newest labels are not known")
	}
}

// reapply applies a label again.
func (p *replay) reapply(t *controller.Tick, logged *controller.AppliedLabel, c *comparison) {
	var own controller.AppliedLabel
	err := p.checkSpan(logged)
	if err == nil {
		own, err = p.learner.Reapply(*logged)
	}
	if err == nil && keeps(logged) && len(p.missing) > 0 {
		err = fmt.Errorf("label %d restores the former task, whose labels in the missing ticks are unknown",
			logged.ID)
	}
	field := fmt.Sprintf("%v %d: ", logged.Kind, logged.ID)
	if err != nil {
		p.loseBy(err, field+"outcome", t.Index, c)
		return
	}
	if !p.comparable(logged) {
		return
	}
	c.same(field+"outcome", uint64(logged.Outcome), uint64(own.Outcome))
	c.same(field+"about", logged.About, own.About)
	if len(p.result.Gaps) == 0 {
		c.same(field+"from", logged.From, own.From)
		c.same(field+"to", logged.To, own.To)
	}
	c.bits(field+"weight", logged.Weight, own.Weight)
}

// followReaction compares what the labels showed about the operator's reaction. After a gap the
// replay follows the log.
func (p *replay) followReaction(t *controller.Tick, c *comparison) {
	if len(p.result.Gaps) > 0 {
		p.learner.ResumeReaction(t.Reaction)
		return
	}
	for i, own := range p.learner.Reaction() {
		c.bits("reaction", t.Reaction[i], own)
	}
}

// checkSpan returns an error if a label was credited to a missing tick. Its mean φ is then unknown,
// and the learner must not keep the mean of the other ticks.
func (p *replay) checkSpan(a *controller.AppliedLabel) error {
	if a.Outcome != controller.Applied || !a.Kind.Teaches() {
		return nil
	}
	first := p.learner.FirstTick(a)
	if slices.ContainsFunc(p.missing, func(m span) bool { return first <= m.to && m.from <= a.To }) {
		return fmt.Errorf("label %d is about ticks %d to %d, and some of them are missing", a.ID, a.From, a.To)
	}
	return nil
}

// comparable reports whether the age of a label is known: the log has every record since
// the tick that it is about.
func (p *replay) comparable(a *controller.AppliedLabel) bool {
	if len(p.missing) == 0 {
		return true
	}
	return a.Kind != rewardsrc.Undo && a.From >= p.whole
}

// noteGap reports whether records are missing before t, and then stops the comparison.
func (p *replay) noteGap(t *controller.Tick) bool {
	missing := missingBefore(t, p.last, p.started)
	if missing > 0 {
		p.whole, p.before = t.Index, 0 // what followed from the last record was in a missing tick
		lost := span{to: t.Index - min(t.Index, t.Elapsed)}
		if p.started {
			lost.from = p.last + 1
		}
		p.missing = append(p.missing, lost)
		p.lose(t.Index, missing, "missing ticks")
	}
	return missing > 0
}

// loseBy notes that the learner cannot repeat what the log has. Without a gap it has all that the
// robot had, so the log differs.
func (p *replay) loseBy(err error, field string, tick uint64, c *comparison) {
	if len(p.result.Gaps) == 0 {
		c.note(field, "applied", err.Error())
		return
	}
	if p.synced {
		p.lose(tick, 0, err.Error())
		c.on = false
	}
}

func (p *replay) lose(tick, missing uint64, reason string) {
	p.synced = false
	p.result.Gaps = append(p.result.Gaps, Gap{Tick: tick, Missing: missing, Reason: reason})
}

// takeSnapshots restores the belief from the snapshot right before t, if the belief is
// unknown or differs from it. Nothing may change a belief between two ticks.
func (p *replay) takeSnapshots(t *controller.Tick, c *comparison) error {
	for len(p.snapshots) > 0 && p.snapshots[0].next <= t.Index {
		s := p.snapshots[0]
		p.snapshots = p.snapshots[1:]
		// The tick before t was t.Elapsed earlier. An earlier snapshot lacks it.
		if t.Elapsed > 0 && t.Index-min(t.Index, t.Elapsed) >= s.next {
			continue
		}
		computed := p.learner.Belief().Hash()
		if p.synced && computed == s.hash {
			continue
		}
		c.note("hash of the snapshot before it", fmt.Sprintf("%016x", s.hash), fmt.Sprintf("%016x", computed))
		if err := p.restore(s, t.Index); err != nil {
			return err
		}
	}
	return nil
}

func (p *replay) restore(s place, tick uint64) error {
	snapshot := p.reader.loadSnapshot(s)
	if snapshot == nil {
		return nil // the file changed since findSnapshots
	}
	if err := snapshot.restore(p.learner); err != nil {
		return err
	}
	p.synced = true
	if n := len(p.result.Gaps); n > 0 && !p.result.Gaps[n-1].Ended {
		p.result.Gaps[n-1].Resumed, p.result.Gaps[n-1].Ended = tick, true
	}
	return nil
}

// restore gives a learner the belief.
func (s *Snapshot) restore(l *controller.Learner) error {
	set := l.Restore
	if s.Task != "" {
		set = l.SwitchTask
	}
	err := set(s.State, s.Noise)
	if got := l.Belief().Hash(); err == nil && got != s.Hash {
		err = fmt.Errorf("its hash is %016x, not %016x", got, s.Hash)
	}
	if err != nil {
		return fmt.Errorf("flightlog: the snapshot before tick %d: %w: %w", s.Next, ErrDamaged, err)
	}
	return nil
}

// comparison collects the first difference of one tick.
type comparison struct {
	tick  uint64
	on    bool
	first *Difference
}

func (c *comparison) note(field, logged, computed string) {
	if c.on && c.first == nil {
		c.first = &Difference{Tick: c.tick, Field: field, Logged: logged, Computed: computed}
	}
}

func (c *comparison) same(field string, logged, computed uint64) {
	if logged == computed {
		return
	}
	format := "%d"
	if field == "hash" {
		format = "%016x"
	}
	c.note(field, fmt.Sprintf(format, logged), fmt.Sprintf(format, computed))
}

func (c *comparison) bits(field string, logged, computed float64) {
	if math.Float64bits(logged) != math.Float64bits(computed) {
		c.note(field, fmt.Sprintf("%.17g", logged), fmt.Sprintf("%.17g", computed))
	}
}

func (c *comparison) near(field string, logged, computed float64) {
	equal := logged == computed || math.IsNaN(logged) && math.IsNaN(computed)
	infinite := math.IsInf(logged, 0) || math.IsInf(computed, 0) // equal only to itself
	if equal || !infinite && math.Abs(logged-computed) <= tolerance*max(1, math.Abs(logged)) {
		return
	}
	c.note(field, fmt.Sprintf("%.17g", logged), fmt.Sprintf("%.17g", computed))
}

// norm returns ‖x‖.
func norm(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum)
}
