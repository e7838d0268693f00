package tflite

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"optibfm/tflite/internal/kernel"
)

// batch and laterBatch are the numbers of candidates that the members after the leading one
// evaluate at once: first batch, a tile of the kernels, which often contains the best; then
// laterBatch, two tiles, which read weights half as often. The evaluated candidates do not depend
// on the number of workers.
const batch, laterBatch = 6, 12

// search is the memory of Search, for the largest n so far.
type search struct {
	team     *kernel.Team
	capacity int
	scratch  scratch
	psi      kernel.Rows // [n, d], of one member
	whitened kernel.Rows // [n, d+1], R⁻ᵀψ and ψᵀẑ
	z        kernel.Rows // [n, d], normalised
	actions  kernel.Rows // [n, A]
	scores   []float32   // [n], the lowest bound of the members so far
	order    []int       // [n], the candidates by descending bound of the leading member
	next     []int       // the candidates of the batch that may still be the best
	batch    batched
	bounds   *boundMatrix
	lead     int   // the member that evaluates all candidates
	binding  []int // [n], the member with the least bound so far
	work     int   // evaluated members, summed over the candidates
}

// batched are the candidates of a batch.
type batched struct {
	z       kernel.Rows // [laterBatch, d]
	actions kernel.Rows // [laterBatch, A]
	scores  []float32   // [laterBatch]
}

func (n *Network) growSearch(count int) {
	s, d, actions := &n.search, n.arch.Latent, n.arch.Action
	if s.bounds == nil {
		s.bounds = newBoundMatrix(d)
		s.next = make([]int, laterBatch)
		s.batch = batched{
			kernel.NewRows(laterBatch, d), kernel.NewRows(laterBatch, actions), make([]float32, laterBatch),
		}
	}
	if s.capacity >= count {
		return
	}
	s.capacity = count
	s.z, s.actions = kernel.NewRows(count, d), kernel.NewRows(count, actions)
	s.scores, s.order, s.binding = make([]float32, count), make([]int, count), make([]int, count)
	rows, done := max(count, laterBatch), s.scratch.work
	s.scratch = newScratch(rows, n.weights, s.team)
	s.scratch.work = done
	s.psi, s.whitened = kernel.NewRows(rows, d), kernel.NewRows(rows, d+1)
}

// Search implements Model. It evaluates once what does not depend on the candidate:
// the actor's embed_s and its part of the trunk, and the products of every first layer
// with the observation. A candidate gets the same action and ψ, bit for bit, as from
// Act and Psi.
//
// The score is the least bound over the ensemble's members, so each member bounds it
// from above. One member evaluates all candidates: the one that had the least bound of
// the best candidate in the previous search. The others evaluate the candidates in the
// order of these bounds, in batches, and stop at the first bound below the best score.
// The result is, to the bit, that of evaluating all members. Search does not
// detect a non-finite ψ that it does not compute.
//
// Search allocates only if n is larger than before.
func (n *Network) Search(obs, candidates []float32, belief Belief) (best int, score float32, err error) {
	d := n.arch.Latent
	if len(n.weights.f) == 0 {
		return 0, 0, ErrNoForward
	}
	if len(candidates) == 0 || len(candidates)%d != 0 {
		return 0, 0, fmt.Errorf("tflite: search: wrong number of elements of candidates (%d, want a positive multiple of %d)",
			len(candidates), d)
	}
	if err := n.setState(obs); err != nil {
		return 0, 0, err
	}
	if err := belief.Validate(d); err != nil {
		return 0, 0, err
	}
	count := len(candidates) / d
	n.growSearch(count)
	if err := n.setCandidates(candidates, count); err != nil {
		return 0, 0, err
	}
	n.search.bounds.set(belief)
	if err := n.searchLeading(count); err != nil {
		return 0, 0, err
	}
	if best, score, err = n.searchOthers(count); err == nil {
		n.search.lead = n.search.binding[best]
	}
	return best, score, err
}

// setCandidates writes the candidates as the networks take them.
func (n *Network) setCandidates(candidates []float32, count int) error {
	d := n.arch.Latent
	for i := range count {
		for k, x := range candidates[i*d : (i+1)*d] {
			n.wide[k] = float64(x)
		}
		if err := ProjectZ(n.search.z.Row(i, d), n.wide, n.arch.NormZ); err != nil {
			return err
		}
	}
	return nil
}

// searchLeading computes the actions of all candidates and their bounds by the leading
// member.
func (n *Network) searchLeading(count int) error {
	s := &n.search
	s.work = count
	for i := range count {
		s.binding[i] = s.lead
	}
	s.scratch.observe(&n.actor, n.weights.actor, n.seen.actor)
	s.scratch.twoTower(s.actions, n.weights.actor, &n.actor, kernel.Rows{}, s.z, count)
	for i := range count {
		if !allFinite(s.actions.Row(i, n.arch.Action)) {
			return errPolicy
		}
	}
	kernel.Tanh(s.actions, count, n.arch.Action)
	f, terms := n.weights.f[s.lead], &n.f[s.lead]
	s.scratch.observe(terms, f, n.seen.f)
	s.scratch.twoTower(s.psi, f, terms, s.actions, s.z, count)
	return s.bounds.apply(s.scores[:count], s.psi, s.whitened, &s.scratch)
}

// searchOthers evaluates the other members of the candidates that may be the best, and
// returns the best.
func (n *Network) searchOthers(count int) (best int, score float32, err error) {
	s := &n.search
	members := len(n.weights.f)
	order := s.order[:count]
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(s.scores[b], s.scores[a]), cmp.Compare(a, b))
	})
	for m, f := range n.weights.f {
		if m != s.lead {
			s.scratch.observe(&n.f[m], f, n.seen.f)
		}
	}
	best, score = -1, float32(math.Inf(-1))
	for size := batch; len(order) > 0; size = laterBatch {
		s.next = s.next[:0]
		for len(order) > 0 && len(s.next) < size && s.scores[order[0]] >= score {
			s.next, order = append(s.next, order[0]), order[1:]
		}
		if len(s.next) == 0 {
			break
		}
		for m := 0; m < members && len(s.next) > 0; m++ {
			if m == s.lead {
				continue
			}
			s.work += len(s.next)
			if err := n.evaluateBatch(m); err != nil {
				return 0, 0, err
			}
			s.next = slices.DeleteFunc(s.next, func(i int) bool { return s.scores[i] < score })
		}
		for _, i := range s.next {
			if s.scores[i] > score || s.scores[i] == score && i < best {
				best, score = i, s.scores[i]
			}
		}
	}
	return best, score, nil
}

// evaluateBatch bounds the scores of the batch by one member.
func (n *Network) evaluateBatch(member int) error {
	s, b, d, count := &n.search, &n.search.batch, n.arch.Latent, len(n.search.next)
	for i, c := range s.next {
		copy(b.z.Row(i, d), s.z.Row(c, d))
		copy(b.actions.Row(i, n.arch.Action), s.actions.Row(c, n.arch.Action))
	}
	s.scratch.twoTower(s.psi, n.weights.f[member], &n.f[member], b.actions, b.z, count)
	if err := s.bounds.apply(b.scores[:count], s.psi, s.whitened, &s.scratch); err != nil {
		return err
	}
	for i, c := range s.next {
		if b.scores[i] < s.scores[c] {
			s.scores[c], s.binding[c] = b.scores[i], member
		}
	}
	return nil
}
