package tflite

import (
	"slices"
	"testing"
)

func TestSearchGivesEachCandidateTheBitsOfActAndPsi(t *testing.T) {
	m, _ := tiny()
	m.Architecture.F.Hidden, m.Architecture.Actor.Hidden = 150, 134 // no multiple of a tile or of 4
	tensors := map[string]Tensor{covName: {Shape: []int{3, 3}, F64: []float64{1, 0, 0, 0, 1, 0, 0, 0, 1}}}
	for name, shape := range m.Architecture.Tensors() {
		values := make([]float32, elements(shape))
		for i := range values {
			values[i] = float32((i*len(name)+1)%101-50) / 300
		}
		tensors[name] = Tensor{Shape: shape, F32: values}
	}
	b, err := New(m, tensors)
	if err != nil {
		t.Fatal(err)
	}
	n, err := b.NewNetwork()
	if err != nil {
		t.Fatal(err)
	}
	const count = 67
	obs, candidates := []float32{0.3, -0.7}, make([]float32, count*3)
	for i := range candidates {
		candidates[i] = float32(i%13) - 6.3
	}
	belief := Belief{Mean: []float32{1, 2, 3}, InvR: []float32{1, 0, 0, 0, 1, 0, 0, 0, 1}, Beta: 0.5}
	if _, _, err := n.Search(obs, candidates, belief); err != nil {
		t.Fatal(err)
	}
	actions, scores := slices.Clone(n.search.actions), slices.Clone(n.search.scores)
	for i := range count {
		z := make([]float64, 3)
		for k := range z {
			z[k] = float64(candidates[i*3+k])
		}
		action, psi, bound := make([]float32, 1), make([]float32, 2*3), make([]float32, 2)
		if err := n.Act(action, obs, z); err != nil {
			t.Fatal(err)
		}
		if err := n.Psi(psi, obs, action, z); err != nil {
			t.Fatal(err)
		}
		rows := aligned[float32](2 * padded(3))
		copy(rows, psi[:3])
		copy(rows[padded(3):], psi[3:])
		bounds(bound, rows, belief)
		if action[0] != actions[i*padded(1)] || min(bound[0], bound[1]) != scores[i] {
			t.Errorf("candidate %d: action %v, score %v; alone %v and %v", i, actions[i*padded(1)], scores[i], action[0], min(bound[0], bound[1]))
		}
	}
}
