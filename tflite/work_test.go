package tflite_test

import (
	"math/rand/v2"
	"testing"

	"optibfm/internal/fatal"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

// smallArchitecture has 3 observations, 2 actions, d = 4, layers of 6 and one member.
func smallArchitecture() tflite.Architecture {
	m := tflitetest.Manifest(tflite.Dims{Obs: 3, Action: 2, Latent: 4, Ensemble: 1})
	m.Architecture.F.Hidden, m.Architecture.Actor.Hidden, m.Architecture.B.Hidden = 6, 6, 6
	return m.Architecture
}

func TestFLOPs_AreTwoPerWeight(t *testing.T) {
	got := smallArchitecture().FLOPs()
	want := tflite.FLOPs{
		Phi: 2 * (3*6 + 6*6 + 6*4),
		Act: 2 * ((3+4)*6 + 6*3 + 3*6 + 6*3 + 6*6 + 6*2),     // embed_z, embed_s, policy
		Psi: 2 * ((3+4)*6 + 6*3 + (3+2)*6 + 6*3 + 6*6 + 6*4), // embed_z, embed_sa, Fs
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if n := got.Search(10, 2); n != 10*(want.Act+2*want.Psi) {
		t.Errorf("a search among 10 by 2 members: %d", n)
	}
}

// alwaysActive is a network with positive weights and biases, in which ReLU gives no
// zeros.
func alwaysActive(t *testing.T) *tflite.Network {
	t.Helper()
	m := tflitetest.Manifest(tflite.Dims{Obs: 3, Action: 2, Latent: 4, Ensemble: 1})
	m.Architecture = smallArchitecture()
	tensors := tflitetest.Tensors(m.Architecture, 1)
	for name, tensor := range tensors {
		for i := range tensor.F32 {
			tensor.F32[i] = 1
			if name[len(name)-6:] != "weight" {
				tensor.F32[i] = 9
			}
		}
	}
	return newNetwork(t, m, tensors)
}

func TestWork_EqualsFLOPsWithoutZeros(t *testing.T) {
	n, f := alwaysActive(t), smallArchitecture().FLOPs()
	obs, z := []float32{1, 2, 3}, []float64{1, 2, 3, 4}
	before := n.Work()
	fatal.If(t, n.Phi(make([]float64, 4), obs))
	phi := n.Work().Sub(before)
	if phi.FLOPs != f.Phi {
		t.Errorf("φ: counted %d, want %d", phi.FLOPs, f.Phi)
	}
	if want := int64(4 * ((3*6 + 6*6 + 6*4) + (3 + 6) + (6 + 6) + (6 + 4))); phi.Bytes != want {
		t.Errorf("φ: counted %d bytes, want %d", phi.Bytes, want)
	}
	before = n.Work()
	fatal.If(t, n.Act(make([]float32, 2), obs, z))
	if act := n.Work().Sub(before); act.FLOPs != f.Act {
		t.Errorf("π: counted %d, want %d", act.FLOPs, f.Act)
	}
}

func TestWork_SearchIsLessThanFullEvaluation(t *testing.T) {
	n, err := tflitetest.Bundle(small, 1).NewNetwork(tflite.Workers(2))
	fatal.If(t, err)
	defer n.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	const candidates = 40
	before := n.Work()
	obs, zs := tflitetest.Randoms(rng, small.Obs), tflitetest.Randoms(rng, candidates*small.Latent)
	if _, _, err := n.Search(obs, zs, randomBelief(rng, small.Latent, 1)); err != nil {
		t.Fatal(err)
	}
	all := tflitetest.Manifest(small).Architecture.FLOPs().Search(candidates, small.Ensemble)
	if done := n.Work().Sub(before).FLOPs; done <= 0 || done >= all {
		t.Errorf("counted %d of %d", done, all)
	}
}
