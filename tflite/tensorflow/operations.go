package tensorflow

import "slices"

// The operations of the graph. Each has a kernel for the GPU at the types of the graph:
// TestNew_EveryOperationHasAKernel lists the kernels of a library.

func (g *graphDef) placeholder(name string, dims ...int) ref {
	return g.add(name, "Placeholder", nil, typed("dtype", float32Type), shaped("shape", dims))
}

// unary is y = op(x).
func (g *graphDef) unary(op string, x ref) ref {
	return g.add("", op, []ref{x}, typed("T", float32Type))
}

// binary is op(x, y), the smaller repeated over the larger.
func (g *graphDef) binary(op string, x, y ref) ref {
	return g.add("", op, []ref{x, y}, typed("T", float32Type))
}

func (g *graphDef) matMul(t dtype, x, y ref) ref {
	return g.add("", "MatMul", []ref{x, y}, typed("T", t), flag("transpose_a", false), flag("transpose_b", false))
}

// reduce is op over an axis; keep retains the axis with size 1.
func (g *graphDef) reduce(name, op string, x ref, axis int, keep bool) ref {
	return g.add(name, op, []ref{x, g.ints([]int{axis}, 1)},
		typed("T", float32Type), typed("Tidx", int32Type), flag("keep_dims", keep))
}

func (g *graphDef) reshape(x ref, dims ...int) ref {
	return g.add("", "Reshape", []ref{x, g.ints(dims, len(dims))}, typed("T", float32Type), typed("Tshape", int32Type))
}

// pack stacks tensors of one shape along a new first axis.
func (g *graphDef) pack(name string, parts []ref) ref {
	return g.add(name, "Pack", parts, typed("T", float32Type), count("N", len(parts)), count("axis", 0))
}

// concat concatenates at least two tensors along an axis.
func (g *graphDef) concat(axis int, parts ...ref) ref {
	return g.add("", "ConcatV2", append(slices.Clip(parts), g.ints([]int{axis})),
		typed("T", float32Type), typed("Tidx", int32Type), count("N", len(parts)))
}

// columns are the columns of a matrix with these indices.
func (g *graphDef) columns(x ref, indices []int) ref {
	return g.add("", "GatherV2", []ref{x, g.ints(indices, len(indices)), g.ints([]int{1})},
		typed("Tparams", float32Type), typed("Tindices", int32Type), typed("Taxis", int32Type))
}

// repeated is x, broadcast to the shape of like.
func (g *graphDef) repeated(x, like ref) ref {
	shape := g.add("", "Shape", []ref{like}, typed("T", float32Type), typed("out_type", int32Type))
	return g.add("", "BroadcastTo", []ref{x, shape}, typed("T", float32Type), typed("Tidx", int32Type))
}

// argMax is the lowest index of the largest element of a vector.
func (g *graphDef) argMax(name string, x ref) ref {
	return g.add(name, "ArgMax", []ref{x, g.ints([]int{0})},
		typed("T", float32Type), typed("Tidx", int32Type), typed("output_type", int64Type))
}

// allFinite is whether no element of a vector is NaN or infinite.
func (g *graphDef) allFinite(name string, x ref) ref {
	finite := g.unary("IsFinite", x)
	return g.add(name, "All", []ref{finite, g.ints([]int{0}, 1)}, typed("Tidx", int32Type), flag("keep_dims", false))
}

func (g *graphDef) widen(x ref) ref {
	return g.add("", "Cast", []ref{x}, typed("SrcT", float32Type), typed("DstT", float64Type), flag("Truncate", false))
}

func (g *graphDef) named(name string, t dtype, x ref) ref {
	return g.add(name, "Identity", []ref{x}, typed("T", t))
}
