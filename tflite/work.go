package tflite

import "strings"

// Work is what the matrix products of a Network took. What stands between them
// (LayerNorm, tanh, the choice of what is not 0) is not counted.
type Work struct {
	FLOPs int64 // floating-point operations in float32, two for a multiply-add
	Bytes int64 // weights, inputs and outputs of the products, each read or written once a product
}

// Sub returns what was added since an earlier count.
func (w Work) Sub(earlier Work) Work {
	return Work{w.FLOPs - earlier.FLOPs, w.Bytes - earlier.Bytes}
}

// Work returns what the calls so far took. What was left out is not in it: the
// inputs that ReLU made 0, the members of the ensemble whose bound a search did
// not need, the products with the observation that all candidates share.
func (n *Network) Work() Work {
	sum := n.one.work
	for _, w := range n.search.all {
		sum.FLOPs += w.scratch.work.FLOPs
		sum.Bytes += w.scratch.work.Bytes
	}
	return sum
}

func (w *Work) add(flops, bytes int) {
	w.FLOPs += int64(flops)
	w.Bytes += int64(bytes)
}

// FLOPs are the floating-point operations of the matrix products of an
// architecture, two for a multiply-add, where nothing is shared or left out.
type FLOPs struct {
	Phi int64 // of φ(s)
	Act int64 // of π_z(s)
	Psi int64 // of ψ_m(s, a, z) of one member
}

// Search returns those of a search among n candidates, each evaluated alone and
// by every member.
func (f FLOPs) Search(n, members int) int64 { return int64(n) * (f.Act + int64(members)*f.Psi) }

// FLOPs counts the operations of the networks. The d² of (Cov B)⁻¹, in float64,
// are not in it.
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
