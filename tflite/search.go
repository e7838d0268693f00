package tflite

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"optibfm/tflite/internal/kernel"
)

// batch is how many candidates the members after the leading one evaluate at
// once: a tile of the kernels. It does not depend on the number of workers, so
// that the same candidates are evaluated whatever that is.
const batch = 6

// search is the memory of Search, grown to the largest n seen.
type search struct {
	pool
	room    int
	z       kernel.Rows // [n, d], as the networks take it
	actions kernel.Rows // [n, A]
	scores  []float32   // [n], the least upper bound over the members so far
	order   []int       // [n], the candidates, the greatest bound of the leading member first
	next    []int       // the candidates of the batch that are still in the race
	metric  *metric
	lead    int   // the member that evaluates all candidates
	member  int   // the one that evaluates the batch
	binding []int // [n], the member whose bound is the score
	work    int   // members that were evaluated, summed over the candidates
}

func (n *Network) growSearch(count int) {
	s, d := &n.search, n.arch.Latent
	if s.metric == nil {
		s.metric = newMetric(d)
		s.next = make([]int, batch)
	}
	if s.room < count {
		s.room = count
		s.z, s.actions = kernel.NewRows(count, d), kernel.NewRows(count, n.arch.Action)
		s.scores, s.order, s.binding = make([]float32, count), make([]int, count), make([]int, count)
	}
	s.grow(n, max(count, batch))
}

// Search implements Model. What does not depend on the candidate is evaluated
// once: the actor's embed_s and its part of the trunk, and the products of
// every first layer with the observation. A candidate gets the same action and
// ψ, bit for bit, as from Act and Psi.
//
// The score is the least over the ensemble's members, so that a member bounds it
// from above. One member evaluates all candidates: the one that had the least
// bound of the best candidate of the search before. The others evaluate them in
// the order of these bounds, in batches, and stop at the first bound that is below
// the best score found. The result is, to the bit, the one of evaluating all: only
// a ψ that is not finite goes unnoticed where it is not needed.
//
// Search allocates only where n is larger than it has been.
func (n *Network) Search(obs, candidates []float32, belief Belief) (best int, score float32, err error) {
	d := n.arch.Latent
	if len(candidates) == 0 || len(candidates)%d != 0 {
		return 0, 0, fmt.Errorf("tflite: the candidates have %d elements, want a multiple of %d that is not 0", len(candidates), d)
	}
	if err := n.takeObs(obs); err != nil {
		return 0, 0, err
	}
	if err := checkBelief(belief, d); err != nil {
		return 0, 0, err
	}
	count := len(candidates) / d
	n.growSearch(count)
	if err := n.takeCandidates(candidates, count); err != nil {
		return 0, 0, err
	}
	n.search.metric.take(belief)
	if err := n.leadingMember(count); err != nil {
		return 0, 0, err
	}
	if best, score, err = n.otherMembers(count); err == nil {
		n.search.lead = n.search.binding[best]
	}
	return best, score, err
}

func checkBelief(b Belief, d int) error {
	if err := length("the belief's mean", len(b.Mean), d); err != nil {
		return err
	}
	if err := length("the belief's R⁻¹", len(b.InvR), d*d); err != nil {
		return err
	}
	if !allFinite(b.Mean) || !allFinite(b.InvR) || !isFinite(b.Beta) || b.Beta < 0 {
		return errBelief
	}
	return nil
}

// takeCandidates writes the candidates as the networks take them.
func (n *Network) takeCandidates(candidates []float32, count int) error {
	d := n.arch.Latent
	for i := range count {
		for k, x := range candidates[i*d : (i+1)*d] {
			n.wide[k] = float64(x)
		}
		if err := n.takeZ(n.search.z.Row(i, d)); err != nil {
			return err
		}
	}
	return nil
}

// leadingMember finds the actions and one member's bounds of all candidates.
func (n *Network) leadingMember(count int) error {
	s := &n.search
	n.one.share(n.actor, n.weights.actor, n.obs)
	n.one.share(n.f[s.lead], n.weights.f[s.lead], n.obs)
	s.work = count
	for i := range count {
		s.binding[i] = s.lead
	}
	return s.run(n, stageLeading, count)
}

// leading is the work of leadingMember on the candidates from..to.
func (n *Network) leading(w *worker, from, to int) error {
	s, count := &n.search, to-from
	actions := s.actions.From(from)
	w.scratch.twin(actions, n.weights.actor, n.actor, kernel.Rows{}, s.z.From(from), count)
	for i := range count {
		if !allFinite(actions.Row(i, n.arch.Action)) {
			return errPolicy
		}
	}
	kernel.Tanh(actions, count, n.arch.Action)
	w.scratch.twin(w.psi, n.weights.f[s.lead], n.f[s.lead], actions, s.z.From(from), count)
	return s.metric.bounds(s.scores[from:to], w.psi, w.metric, count, &w.scratch.work)
}

// otherMembers lowers the scores of the candidates that may be the best, and
// returns the best.
func (n *Network) otherMembers(count int) (best int, score float32, err error) {
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
			n.one.share(n.f[m], f, n.obs)
		}
	}
	best, score = -1, float32(math.Inf(-1))
	for len(order) > 0 {
		s.next = s.next[:0]
		for len(order) > 0 && len(s.next) < batch && s.scores[order[0]] >= score {
			s.next, order = append(s.next, order[0]), order[1:]
		}
		if len(s.next) == 0 {
			break
		}
		for s.member = 0; s.member < members && len(s.next) > 0; s.member++ {
			if s.member == s.lead {
				continue
			}
			s.work += len(s.next)
			if err := s.run(n, stageOther, len(s.next)); err != nil {
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

// other is the work of one member on the candidates from..to of the batch.
func (n *Network) other(w *worker, from, to int) error {
	s, d, count := &n.search, n.arch.Latent, to-from
	for i, c := range s.next[from:to] {
		copy(w.z.Row(i, d), s.z.Row(c, d))
		copy(w.actions.Row(i, n.arch.Action), s.actions.Row(c, n.arch.Action))
	}
	w.scratch.twin(w.psi, n.weights.f[s.member], n.f[s.member], w.actions, w.z, count)
	if err := s.metric.bounds(w.scores, w.psi, w.metric, count, &w.scratch.work); err != nil {
		return err
	}
	for i, c := range s.next[from:to] {
		if w.scores[i] < s.scores[c] {
			s.scores[c], s.binding[c] = w.scores[i], s.member
		}
	}
	return nil
}
