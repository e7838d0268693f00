package posterior

import (
	"fmt"
	"math"
)

// In this file, factor.go and loops.go a float64() conversion contains every product. It
// prevents the compiler from fusing the product with an addition, so that R and b
// have the same bits on every CPU.

// LabelError describes a refused label. The belief is unchanged. Only Error formats
// the message, so that a control tick can count refused labels without formatting.
type LabelError struct {
	Op    string  // the method
	Row   int     // row of a batch, -1 for a single label
	What  string  // cause
	Found float64 // the wrong number
	Do    string  // fix
	Err   error   // ErrNotPositiveDefinite or nil
}

// Error formats the error.
func (e *LabelError) Error() string {
	if e.Row < 0 {
		return fmt.Sprintf("posterior.%s: %s (%g): %s", e.Op, e.What, e.Found, e.Do)
	}
	return fmt.Sprintf("posterior.%s: row %d: %s (%g): %s", e.Op, e.Row, e.What, e.Found, e.Do)
}

// Unwrap returns Err.
func (e *LabelError) Unwrap() error { return e.Err }

// checkLabel returns an error for a bad label. A NaN fails every comparison.
func (b *Belief) checkLabel(op string, row int, phi []float64, reward, weight float64) error {
	refuse := func(what string, found float64, do string) error {
		return &LabelError{Op: op, Row: row, What: what, Found: found, Do: do}
	}
	if len(phi) != b.dim {
		return refuse("wrong length of phi", float64(len(phi)), "give one feature for each dimension of the belief")
	}
	if !(weight > 0 && weight <= MaxInformation) {
		return refuse("weight is not positive and finite", weight, "drop the label")
	}
	if !(float64(weight*float64(reward*reward)) <= MaxInformation) {
		return refuse("reward is not finite or too large", reward, "drop the label")
	}
	normSq := 0.0
	for _, v := range phi {
		normSq += float64(v * v)
	}
	if !(float64(weight*normSq) <= MaxInformation) {
		return refuse("phi is not finite or its squared norm too large", normSq, "drop the label")
	}
	return nil
}

// Update adds a label: V += w φφᵀ, b += w r φ. phi is [d], weight is in
// (0, MaxInformation]; a label with noise σ has weight = w/σ². For a label that is
// not finite, too large or of the wrong length it returns a *LabelError and changes
// nothing. O(d²).
func (b *Belief) Update(phi []float64, reward, weight float64) error {
	if err := b.checkLabel("Update", -1, phi, reward, weight); err != nil {
		return err
	}
	scaleTo(b.x, phi, math.Sqrt(weight))
	rankOneUpdate(b.r, b.x, 0)
	b.addReward(phi, float64(weight*reward))
	*b.weight += weight
	b.meanKnown = false
	return nil
}

// Downdate removes a label: V -= w φφᵀ, b -= w r φ. weight is the current weight of
// the label: ρ^k times that of Update after k calls of Forget. For a refused label
// it returns a *LabelError and changes nothing. The error wraps
// ErrNotPositiveDefinite if V cannot contain the label. O(d²).
//
// Downdate detects a label that was never added only if less than the prior would
// remain.
func (b *Belief) Downdate(phi []float64, reward, weight float64) error {
	if err := b.checkLabel("Downdate", -1, phi, reward, weight); err != nil {
		return err
	}
	scaleTo(b.x, phi, math.Sqrt(weight))
	// At least the prior must remain.
	if !rankOneDowndate(b.r, b.x, b.y, b.floor) {
		return &LabelError{
			Op: "Downdate", Row: -1, What: "the belief has no label with this phi and weight", Found: weight,
			Do: "remove only labels that were added, with their current weight", Err: ErrNotPositiveDefinite,
		}
	}
	b.addReward(phi, -float64(weight*reward))
	*b.weight = max(*b.weight-weight, 0)
	b.meanKnown = false
	return nil
}

// addReward computes b += s φ.
func (b *Belief) addReward(phi []float64, s float64) {
	dst := b.b[:len(phi)]
	for i, v := range phi {
		dst[i] += float64(s * v)
	}
}

// UpdateBatch adds n labels, for warm starts: phi is [n, d] row-major, reward [n],
// weight [n] or nil for ones. It adds four labels at a time: R differs by rounding
// from that of n calls of Update, but is the same on every CPU. An error names the
// row and changes nothing.
func (b *Belief) UpdateBatch(phi []float64, reward, weight []float64) error {
	n, d := len(reward), b.dim
	if len(phi) != n*d {
		return fmt.Errorf("posterior.UpdateBatch: phi does not match the rewards "+
			"(%d numbers for %d labels of %d features); give [n, d] row-major", len(phi), n, d)
	}
	if weight != nil && len(weight) != n {
		return fmt.Errorf("posterior.UpdateBatch: %d weights for %d labels; give one for each label, or nil",
			len(weight), n)
	}
	for i, r := range reward {
		if err := b.checkLabel("UpdateBatch", i, phi[i*d:(i+1)*d], r, weightOf(weight, i)); err != nil {
			return err
		}
	}
	for i := 0; i < n; i += 4 {
		clear(b.block)
		for lane := 0; lane < 4 && i+lane < n; lane++ {
			b.load(lane, phi[(i+lane)*d:(i+lane+1)*d], reward[i+lane], weightOf(weight, i+lane))
		}
		rankFourUpdate(b.r, b.block, 0)
	}
	b.meanKnown = false
	return nil
}

// load writes √w φ of a label into a lane of the block and adds its reward to b.
func (b *Belief) load(lane int, phi []float64, reward, weight float64) {
	root := math.Sqrt(weight)
	for j, v := range phi {
		b.block[j][lane] = float64(root * v)
	}
	b.addReward(phi, float64(weight*reward))
	*b.weight += weight
}

func weightOf(weight []float64, i int) float64 {
	if weight == nil {
		return 1
	}
	return weight[i]
}

// Forget applies the decay of one period: it scales the part of the labels in V, b
// and the weight by ρ, and keeps the prior. It scales the whole V, then restores
// one basis direction of the prior to λ, in turn, by a rank-1 update of the rows
// from that direction on:
//
//	V ← ρV + (λ - ρD_i) e_i e_iᵀ,   D ← ρD with D_i = λ
//
// so that λρ^(d-1) ≤ D_ii ≤ λ at all times. With WithExactRestore it restores every
// direction each time. With ρ = 1 it does nothing.
func (b *Belief) Forget() {
	if b.rho == 1 {
		return
	}
	scale(b.r, b.rootRho)
	scale(b.b, b.rho)
	scale(b.prior, b.rho)
	*b.weight = float64(*b.weight * b.rho)
	if b.exact {
		b.restoreAll()
	} else {
		b.restoreNext()
	}
	b.meanKnown = false
}

// SetPrior changes the precision of the prior from λ. A number outside
// [λ/PriorRange, λ·PriorRange] is clamped, NaN is ignored, and without
// WithMovablePrior it has no effect. The next calls of Forget and TrackPrior
// move the prior there, one direction a call. After Restore, call it again.
func (b *Belief) SetPrior(precision float64) {
	if precision == precision {
		b.target = min(max(precision, b.lambda/b.slack), float64(b.lambda*b.slack))
	}
}

// tolerated is the relative error of a direction of the prior that TrackPrior leaves.
const tolerated = 1.0 / 64

// TrackPrior moves one direction of the prior, in turn, to the precision of SetPrior. It
// leaves directions within 1/64 of it. O(d²). Forget does the same where ρ < 1.
func (b *Belief) TrackPrior() {
	i := int(*b.cursor)
	if b.rho == 1 && math.Abs(b.prior[i]-b.target) > float64(tolerated*b.target) {
		b.restore(i)
		b.meanKnown = false
	}
	if b.rho == 1 {
		b.advanceCursor()
	}
}

// restoreNext restores the direction of the cursor.
func (b *Belief) restoreNext() {
	b.flush(int(*b.cursor))
	b.restore(int(*b.cursor))
	b.advanceCursor()
}

// restore sets direction i of the prior to the target. It leaves a direction that rounding makes
// impossible to lower.
func (b *Belief) restore(i int) {
	change := b.target - b.prior[i]
	clear(b.x)
	b.x[i] = math.Sqrt(math.Abs(change))
	switch {
	case change >= 0:
		rankOneUpdate(b.r, b.x, i)
	case !rankOneDowndate(b.r, b.x, b.y, b.floor):
		return
	}
	b.prior[i] = b.target
}

func (b *Belief) advanceCursor() {
	i := int(*b.cursor) + 1
	if i == b.dim {
		i = 0
	}
	*b.cursor = float64(i)
}

// restoreAll restores every direction to λ, four at a time.
func (b *Belief) restoreAll() {
	for i := 0; i < b.dim; i += 4 {
		clear(b.block)
		for lane := 0; lane < 4 && i+lane < b.dim; lane++ {
			b.flush(i + lane)
			b.block[i+lane][lane] = math.Sqrt(max(b.target-b.prior[i+lane], 0))
			b.prior[i+lane] = max(b.target, b.prior[i+lane])
		}
		rankFourUpdate(b.r, b.block, i)
	}
}

// vanished is negligible beside a prior of MinLambda, and far above the subnormal
// numbers.
const vanished = 1e-250

// flush sets vanished entries of row i to zero. Without it, R and b would contain
// subnormal numbers hours after the last label. CPUs compute with them a hundred
// times more slowly.
func (b *Belief) flush(i int) {
	if math.Abs(b.b[i]) < vanished {
		b.b[i] = 0
	}
	if *b.weight < vanished {
		*b.weight = 0
	}
	off := rowStart(b.dim, i)
	row := b.r[off : off+b.dim-i]
	for j, v := range row {
		if math.Abs(v) < vanished {
			row[j] = 0
		}
	}
}

// Merge adds the labels of another belief: V += V_o - D_o, b += b_o, where D_o is the
// part of the prior in V_o. The result is the belief with the labels of both, each
// with its current weight. λ and ρ of b remain and may differ from those of other;
// the dimensions must be equal. An error changes nothing. O(d³). It allocates.
func (b *Belief) Merge(other *Belief) error {
	sum, err := b.combine(other, other.addTo, other.takePriorFrom)
	if err == nil {
		for i, v := range other.b {
			sum.b[i] += v
		}
		*sum.weight += *other.weight
		err = sum.check(sum.state)
	}
	if err != nil {
		return fmt.Errorf("posterior.Merge: %w; do not merge damaged beliefs", err)
	}
	b.replace(sum)
	return nil
}

// Unmerge is the inverse of Merge: it removes the labels of another belief, all of which b
// must have with the same weight. Otherwise the error wraps ErrNotPositiveDefinite, if less
// than the prior would remain in a direction. An error changes nothing. O(d³). It allocates.
func (b *Belief) Unmerge(other *Belief) error {
	rest, err := b.combine(other, other.addPriorTo, other.takeFrom)
	if err == nil {
		for i, v := range other.b {
			rest.b[i] -= v
		}
		*rest.weight = max(*rest.weight-*other.weight, 0)
		err = rest.check(rest.state)
	}
	if err != nil {
		return fmt.Errorf("posterior.Unmerge: %w; remove only labels that were merged", err)
	}
	b.replace(rest)
	return nil
}

// combine returns a copy of b with the R that two steps, which add to V and take from it, make.
func (b *Belief) combine(other *Belief, add func(*Belief), take func(*Belief) error) (*Belief, error) {
	if other.dim != b.dim {
		return nil, fmt.Errorf("the dimensions differ (%d and %d), so the models do", b.dim, other.dim)
	}
	c := b.Clone()
	add(c)
	return c, take(c)
}

// replace takes the state of a belief with the same settings.
func (b *Belief) replace(with *Belief) {
	copy(b.state, with.state)
	b.meanKnown = false
}

// loadRow writes row k of R to the scratch memory of to, and returns the length of R before the
// next row.
func (b *Belief) loadRow(to *Belief, k, off int) (next int) {
	clear(to.x)
	next = off + b.dim - k
	copy(to.x[k:], b.r[off:next])
	return next
}

// addTo adds V to that of to.
func (b *Belief) addTo(to *Belief) {
	for k, off := 0, 0; k < b.dim; k++ {
		off = b.loadRow(to, k, off)
		rankOneUpdate(to.r, to.x, k)
	}
}

// takeFrom subtracts V from that of from.
func (b *Belief) takeFrom(from *Belief) error {
	for k, off := 0, 0; k < b.dim; k++ {
		off = b.loadRow(from, k, off)
		if !rankOneDowndate(from.r, from.x, from.y, from.floor) {
			return fmt.Errorf("row %d of R: %w", k, ErrNotPositiveDefinite)
		}
	}
	return nil
}

// addPriorTo adds D to V of to.
func (b *Belief) addPriorTo(to *Belief) {
	for k, v := range b.prior {
		clear(to.x)
		to.x[k] = math.Sqrt(v)
		rankOneUpdate(to.r, to.x, k)
	}
}

// takePriorFrom subtracts D from V of from.
func (b *Belief) takePriorFrom(from *Belief) error {
	for k, v := range b.prior {
		clear(from.x)
		from.x[k] = math.Sqrt(v)
		if !rankOneDowndate(from.r, from.x, from.y, from.floor) {
			return fmt.Errorf("direction %d of the prior: %w", k, ErrNotPositiveDefinite)
		}
	}
	return nil
}
