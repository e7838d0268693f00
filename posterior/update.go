package posterior

import (
	"fmt"
	"math"
)

// In this file and in factor.go every product stands in float64(): the
// conversion forbids the compiler to fuse it with an addition, and so R and b
// have the same bits on every CPU.

// LabelError says why a label was refused. The belief is as it was. The
// message is put together only when it is read, so that a control tick which
// counts refused labels formats no strings.
type LabelError struct {
	Op    string  // the method
	Row   int     // row of a batch, -1 for a single label
	What  string  // what is wrong
	Found float64 // the number that is wrong
	Do    string  // what to do
	Err   error   // ErrNotPositiveDefinite where that is the reason, else nil
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

// checkLabel returns what is wrong with a label. The comparisons are written
// so that a NaN fails them.
func (b *Belief) checkLabel(op string, row int, phi []float64, reward, weight float64) error {
	refuse := func(what string, found float64, do string) error {
		return &LabelError{Op: op, Row: row, What: what, Found: found, Do: do}
	}
	if len(phi) != b.dim {
		return refuse("phi has the wrong length", float64(len(phi)), "give one feature for each dimension of the belief")
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

// Update takes a label in: V += w φφᵀ, b += w r φ. phi is [d], weight is in
// (0, MaxInformation]; the label's noise σ enters as weight = w/σ².
// A label that is not finite, too large or of the wrong length is a
// *LabelError and changes nothing. O(d²).
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

// Downdate takes a label out again: V -= w φφᵀ, b -= w r φ, where weight is
// what the label weighs now, that is ρ^k of what it was given with after k
// calls of Forget. A refused label is a *LabelError and changes nothing; it
// wraps ErrNotPositiveDefinite where no such label can be in V. O(d²).
//
// A label that was never given can be recognised only where taking it out
// would leave less than the prior; the caller must not rely on more.
func (b *Belief) Downdate(phi []float64, reward, weight float64) error {
	if err := b.checkLabel("Downdate", -1, phi, reward, weight); err != nil {
		return err
	}
	scaleTo(b.x, phi, math.Sqrt(weight))
	// What stays is at least the prior.
	if !rankOneDowndate(b.r, b.x, b.y, b.floor) {
		return &LabelError{Op: "Downdate", Row: -1, What: "there is no label of this phi and weight to take out", Found: weight,
			Do: "take out only labels that were given, at their present weight", Err: ErrNotPositiveDefinite}
	}
	b.addReward(phi, -float64(weight*reward))
	*b.weight = max(*b.weight-weight, 0)
	b.meanKnown = false
	return nil
}

// addReward does b += s φ.
func (b *Belief) addReward(phi []float64, s float64) {
	dst := b.b[:len(phi)]
	for i, v := range phi {
		dst[i] += float64(s * v)
	}
}

// UpdateBatch takes n labels in at once, for warm starts: phi is [n, d]
// row-major, reward [n], weight [n] or nil for ones. It reflects four labels
// at a time into R, so R differs from that of n calls of Update by rounding,
// but is the same on every CPU. An error names the row and changes nothing.
func (b *Belief) UpdateBatch(phi []float64, reward, weight []float64) error {
	n, d := len(reward), b.dim
	if len(phi) != n*d {
		return fmt.Errorf("posterior.UpdateBatch: phi does not fit the rewards (%d numbers for %d labels of %d features): give [n, d] row-major",
			len(phi), n, d)
	}
	if weight != nil && len(weight) != n {
		return fmt.Errorf("posterior.UpdateBatch: weights do not fit the rewards (%d for %d labels): give one a label, or none",
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

// load puts a label's √w φ into a lane of the block and its reward into b.
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

// Forget lets one period elapse: the data's share of V, b and the weight are
// scaled by ρ, and the prior is kept. V as a whole is scaled, then one basis
// direction of the prior, in turn, is brought back to λ by a rank-1 update
// that touches only the rows from that direction on:
//
//	V ← ρV + (λ - ρD_i) e_i e_iᵀ,   D ← ρD with D_i = λ
//
// so that λρ^(d-1) ≤ D_ii ≤ λ at all times. With WithExactRestore every
// direction is brought back each time. With ρ = 1 nothing is done.
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

// restoreNext brings the direction under the cursor back to λ.
func (b *Belief) restoreNext() {
	i := int(*b.cursor)
	b.flush(i)
	clear(b.x)
	b.x[i] = math.Sqrt(b.lambda - b.prior[i])
	b.prior[i] = b.lambda
	rankOneUpdate(b.r, b.x, i)
	i++
	if i == b.dim {
		i = 0
	}
	*b.cursor = float64(i)
}

// restoreAll brings every direction back to λ, four in a sweep.
func (b *Belief) restoreAll() {
	for i := 0; i < b.dim; i += 4 {
		clear(b.block)
		for lane := 0; lane < 4 && i+lane < b.dim; lane++ {
			b.flush(i + lane)
			b.block[i+lane][lane] = math.Sqrt(b.lambda - b.prior[i+lane])
			b.prior[i+lane] = b.lambda
		}
		rankFourUpdate(b.r, b.block, i)
	}
}

// vanished is below anything that can matter beside a prior of MinLambda, and
// far above the subnormal numbers.
const vanished = 1e-250

// flush sets to zero what has decayed to nothing in row i. Without it, hours
// after the last label, R and b would fill with subnormal numbers, on which
// CPUs compute a hundred times slower.
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

// Merge takes in what another belief has learnt: V += V_o - D_o, b += b_o,
// where D_o is what the prior has in V_o. Data add, priors do not: the result
// is the belief that had been given both beliefs' labels, each at the weight
// it has now. λ and ρ stay b's and may differ from other's; the dimensions
// must be equal. An error changes nothing. O(d³), and it allocates.
func (b *Belief) Merge(other *Belief) error {
	if other.dim != b.dim {
		return fmt.Errorf("posterior.Merge: the dimensions differ (%d and %d): merge beliefs of the same model", b.dim, other.dim)
	}
	sum := b.Clone()
	d := b.dim
	for k, off := 0, 0; k < d; k++ {
		clear(sum.x)
		copy(sum.x[k:], other.r[off:off+d-k])
		rankOneUpdate(sum.r, sum.x, k)
		off += d - k
	}
	for k := range d {
		clear(sum.x)
		sum.x[k] = math.Sqrt(other.prior[k])
		if !rankOneDowndate(sum.r, sum.x, sum.y, sum.floor) {
			return fmt.Errorf("posterior.Merge: %w (at direction %d of the other's prior): one of the beliefs is damaged or beyond float64's precision",
				ErrNotPositiveDefinite, k)
		}
	}
	for i, v := range other.b {
		sum.b[i] += v
	}
	*sum.weight += *other.weight
	if err := sum.check(sum.state); err != nil {
		return fmt.Errorf("posterior.Merge: %w", err)
	}
	copy(b.state, sum.state)
	b.meanKnown = false
	return nil
}
