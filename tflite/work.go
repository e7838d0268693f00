package tflite

import "strings"

// Work counts the matrix products of a Network, not the other operations (LayerNorm,
// tanh, the lists of inputs that are not 0).
type Work struct {
	FLOPs int64 // floating-point operations in float32, two for a multiply-add
	Bytes int64 // weights, inputs and outputs, counted once a product
}

// Sub returns the work since an earlier count.
func (w Work) Sub(earlier Work) Work {
	return Work{w.FLOPs - earlier.FLOPs, w.Bytes - earlier.Bytes}
}

// Work returns the work of the calls so far. It excludes what the calls skip: inputs
// that ReLU has set to 0, members of the ensemble that a search does not need, and
// repeated products with the observation.
func (n *Network) Work() Work {
	one, searches := n.one.work, n.search.scratch.work
	return Work{one.FLOPs + searches.FLOPs, one.Bytes + searches.Bytes}
}

func (w *Work) add(flops, bytes int) {
	w.FLOPs += int64(flops)
	w.Bytes += int64(bytes)
}

// FLOPs are the floating-point operations of the matrix products of an architecture,
// two for a multiply-add, if nothing is shared or skipped.
type FLOPs struct {
	Phi int64 // of φ(s)
	Act int64 // of π_z(s)
	Psi int64 // of ψ_m(s, a, z) of one member
}

// Search returns the operations of a search among n candidates, each evaluated alone
// and by every member.
func (f FLOPs) Search(n, members int) int64 { return int64(n) * (f.Act + int64(members)*f.Psi) }

// FLOPs counts the operations of the networks, without the d² of (Cov B)⁻¹ in float64.
func (a Architecture) FLOPs() FLOPs {
	var f FLOPs
	for _, l := range a.layers() {
		flops := 2 * int64(l.in) * int64(l.out)
		switch {
		case l.norm:
		case strings.HasPrefix(l.name, "_backward_map"):
			f.Phi += flops
		case strings.HasPrefix(l.name, "_actor"):
			f.Act += flops
		default:
			f.Psi += flops
		}
	}
	return f
}
