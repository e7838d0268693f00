package tflite

import "fmt"

// searchScratch is the memory of Search, grown to the largest n seen. Rows are
// padded.
type searchScratch struct {
	rows    scratch
	z       []float32 // [n, d], as the networks take it
	actions []float32 // [n, A]
	psi     []float32 // [n, d], of one member
	member  []float32 // [n], the scores of one member
	scores  []float32 // [n], the least over the members
}

func (s *searchScratch) grow(n, widest int, d Dims) {
	if s.rows.n >= n {
		return
	}
	*s = searchScratch{
		rows:    newScratch(n, widest),
		z:       aligned[float32](n * padded(d.Latent)),
		actions: aligned[float32](n * padded(d.Action)),
		psi:     aligned[float32](n * padded(d.Latent)),
		member:  make([]float32, n),
		scores:  make([]float32, n),
	}
}

// Search implements Model. What does not depend on the candidate is evaluated
// once: the actor's embed_s and its part of the trunk, and the products of
// every first layer with the observation. A candidate gets the same action and
// ψ, bit for bit, as from Act and Psi. It allocates only where n is larger than
// it has been.
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
	n.search.grow(count, n.weights.widest, n.Dims())
	if err := n.takeCandidates(candidates, count); err != nil {
		return 0, 0, err
	}
	if err := n.scoreCandidates(belief, count); err != nil {
		return 0, 0, err
	}
	best = argmax(n.search.scores[:count])
	return best, n.search.scores[best], nil
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
		at := i * padded(d)
		if err := n.takeZ(n.search.z[at : at+d]); err != nil {
			return err
		}
	}
	return nil
}

// scoreCandidates fills the scores, the least upper confidence bound over the members.
func (n *Network) scoreCandidates(belief Belief, count int) error {
	s, d := &n.search, n.arch.Latent
	s.rows.twin(s.actions, n.weights.actor, n.obs, nil, s.z, count)
	tanh(s.actions[:count*padded(n.arch.Action)])
	if !rowsFinite(s.actions, count, n.arch.Action) {
		return errPolicy
	}
	for m, f := range n.weights.f {
		s.rows.twin(s.psi, f, n.obs, s.actions, s.z, count)
		if !rowsFinite(s.psi, count, d) {
			return errPsi
		}
		member := s.member[:count]
		bounds(member, s.psi, belief)
		for i, score := range member {
			if m == 0 || score < s.scores[i] {
				s.scores[i] = score
			}
		}
		if !allFinite(member) {
			return errPsi
		}
	}
	return nil
}

// bounds writes ψᵀẑ + β‖R⁻ᵀψ‖ of every padded row of psi. It overwrites psi.
func bounds(dst, psi []float32, b Belief) {
	d, stride := len(b.Mean), padded(len(b.Mean))
	for i := range dst {
		dst[i] = dot(b.Mean, psi[i*stride:i*stride+d])
	}
	timesUpper(psi, b.InvR, len(dst), d)
	for i := range dst {
		dst[i] += b.Beta * norm(psi[i*stride:i*stride+d])
	}
}

func argmax(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}
