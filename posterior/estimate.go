package posterior

import "math"

// Mean writes ẑ, the task's part of V⁻¹b, into dst [TaskDim]. It solves two
// triangular systems, O(d²), once after each change of the belief.
func (b *Belief) Mean(dst []float64) {
	b.checkLen("Mean", "dst", len(dst), b.TaskDim())
	b.solveMean()
	copy(dst, b.mean[b.nuisance:])
}

// FirstNuisance returns the mean of the first dimension of WithNuisance, the first entry of V⁻¹b.
// It is 0 without nuisance.
func (b *Belief) FirstNuisance() float64 {
	if b.nuisance == 0 {
		return 0
	}
	b.solveMean()
	return b.mean[0]
}

// solveMean sets b.mean to ẑ.
func (b *Belief) solveMean() {
	if b.meanKnown {
		return
	}
	copy(b.mean, b.b)
	solveTransposed(b.r, b.mean)
	solve(b.r, b.mean)
	b.meanKnown = true
}

// LogDet returns the log determinant of the task's precision, in nats: log det V
// without nuisance.
func (b *Belief) LogDet() float64 {
	sum := 0.0
	for k, off := b.TaskDim(), 0; k > 0; k-- {
		sum += math.Log(b.task[off])
		off += k
	}
	return 2 * sum
}

// LogDetPrior returns log det D, for the part of the prior in V: d·log λ without
// forgetting.
func (b *Belief) LogDetPrior() float64 {
	sum := 0.0
	for _, v := range b.prior[b.nuisance:] {
		sum += math.Log(v)
	}
	return sum
}

// NormSq returns ‖x‖² in V⁻¹, which is ‖R⁻ᵀx‖²: the variance of xᵀz for labels with
// unit noise. x is [d]. O(d²).
func (b *Belief) NormSq(x []float64) float64 {
	b.checkLen("NormSq", "x", len(x), b.dim)
	copy(b.x, x)
	solveTransposed(b.r, b.x)
	return dot(b.x, b.x)
}

// Gain returns the variance of a label at x in units of its noise, as far as the task
// causes it: log(1 + weight·Gain) is the gain in LogDet from a label of that weight.
// Without nuisance it is NormSq(x). x is [d]. O(d²).
func (b *Belief) Gain(x []float64, weight float64) float64 {
	b.checkLen("Gain", "x", len(x), b.dim)
	copy(b.x, x)
	solveTransposed(b.r, b.x)
	known, task := b.x[:b.nuisance], b.x[b.nuisance:]
	return dot(task, task) / (1 + float64(weight*dot(known, known)))
}

// taskNormSq returns ‖x‖² in the inverse of the task's precision. x is [TaskDim].
func (b *Belief) taskNormSq(x []float64) float64 {
	y := b.x[:len(x)]
	copy(y, x)
	solveTransposed(b.task, y)
	return dot(y, y)
}

// DGap returns Δ = log(1 + w‖φ‖²), the gain in log det V, in nats, from a label with
// the given weight at φ. normSq is NormSq(φ).
func DGap(normSq, weight float64) float64 {
	return math.Log1p(weight * normSq)
}

// DGapThreshold returns the smallest NormSq with a DGap of kappa: expm1(κ)/w. With it
// the label gate is a comparison.
func DGapThreshold(kappa, weight float64) float64 {
	return math.Expm1(kappa) / weight
}

// UCB writes the upper confidence bounds ψᵀẑ + β‖ψ‖ (norm in V⁻¹) of n
// successor features into dst [n]. psi is [n, d] row-major.
func (b *Belief) UCB(dst, psi []float64, n int, beta float64) {
	d := b.TaskDim()
	b.checkLen("UCB", "dst", len(dst), n)
	b.checkLen("UCB", "psi", len(psi), n*d)
	b.solveMean()
	for i := range dst {
		row := psi[i*d : (i+1)*d]
		dst[i] = dot(row, b.mean[b.nuisance:]) + float64(beta*math.Sqrt(b.taskNormSq(row)))
	}
}

// InvR writes R⁻¹ of the task into dst [TaskDim, TaskDim], row-major, with zeros below the
// diagonal. O(d³). With ẑ and R⁻¹ another process can sample and compute UCBs: ‖x‖ in V⁻¹ is the
// Euclidean norm of xᵀR⁻¹.
func (b *Belief) InvR(dst []float64) {
	d := b.TaskDim()
	b.checkLen("InvR", "dst", len(dst), d*d)
	clear(dst)
	off := len(b.task)
	for i := d - 1; i >= 0; i-- {
		off -= d - i
		row := b.task[off : off+d-i]
		out := dst[i*d : (i+1)*d]
		k := i + 1 // two rows at a time, to load and store out half as often
		for ; k+1 < d; k += 2 {
			upper, lower := dst[k*d+k:(k+1)*d], dst[(k+1)*d+k+1:(k+2)*d]
			out[k] -= float64(row[k-i] * upper[0])
			subtractTwo(out[k+1:], upper[1:], lower, row[k-i], row[k+1-i])
		}
		if k < d {
			out[k] -= float64(row[k-i] * dst[k*d+k])
		}
		out[i] = 1
		for j := i; j < d; j++ {
			out[j] /= row[0]
		}
	}
}

// RewardSum writes b = Σ w r φ of the labels to dst [d].
func (b *Belief) RewardSum(dst []float64) {
	b.checkLen("RewardSum", "dst", len(dst), b.dim)
	copy(dst, b.b)
}

// LabelSum writes V - D = Σ w φφᵀ of the labels to v [d, d]. O(d³).
func (b *Belief) LabelSum(v []float64) {
	d := b.dim
	b.checkLen("LabelSum", "v", len(v), d*d)
	clear(v)
	for k, off := 0, 0; k < d; k++ {
		row := b.r[off : off+d-k]
		for i, s := range row {
			out := v[(k+i)*d+k+i : (k+i+1)*d]
			for j, x := range row[i:] {
				out[j] += float64(s * x)
			}
		}
		off += d - k
	}
	for i := range d {
		v[i*d+i] -= b.prior[i]
		for j := range i {
			v[i*d+j] = v[j*d+i]
		}
	}
}

// Predict returns the expected reward at x [d].
func (b *Belief) Predict(x []float64) float64 {
	b.solveMean()
	return dot(x, b.mean)
}
