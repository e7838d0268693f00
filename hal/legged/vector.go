package legged

import "math"

// Vector is x, y, z.
type Vector [3]float64

// Matrix is a rotation, row by row.
type Matrix [9]float64

// Products are wrapped in float64(), so that no compiler fuses them with a sum: results have the
// same bits on every CPU.

// Plus returns a + b.
func (a Vector) Plus(b Vector) Vector { return Vector{a[0] + b[0], a[1] + b[1], a[2] + b[2]} }

func (a Vector) minus(b Vector) Vector { return Vector{a[0] - b[0], a[1] - b[1], a[2] - b[2]} }

func (a Vector) times(s float64) Vector {
	return Vector{float64(a[0] * s), float64(a[1] * s), float64(a[2] * s)}
}

func (a Vector) dot(b Vector) float64 {
	return float64(a[0]*b[0]) + float64(a[1]*b[1]) + float64(a[2]*b[2])
}

// Cross returns a × b.
func (a Vector) Cross(b Vector) Vector {
	return Vector{
		float64(a[1]*b[2]) - float64(a[2]*b[1]),
		float64(a[2]*b[0]) - float64(a[0]*b[2]),
		float64(a[0]*b[1]) - float64(a[1]*b[0]),
	}
}

// Norm returns the length.
func (a Vector) Norm() float64 { return math.Sqrt(a.dot(a)) }

// atMost returns a, shortened to a length.
func (a Vector) atMost(length float64) Vector {
	if n := a.Norm(); n > length {
		return a.times(length / n)
	}
	return a
}

var identity = Matrix{0: 1, 4: 1, 8: 1}

// Apply returns m v.
func (m *Matrix) Apply(v Vector) Vector {
	return Vector{
		float64(m[0]*v[0]) + float64(m[1]*v[1]) + float64(m[2]*v[2]),
		float64(m[3]*v[0]) + float64(m[4]*v[1]) + float64(m[5]*v[2]),
		float64(m[6]*v[0]) + float64(m[7]*v[1]) + float64(m[8]*v[2]),
	}
}

// applyInverse returns mᵀ v.
func (m *Matrix) applyInverse(v Vector) Vector {
	return Vector{
		float64(m[0]*v[0]) + float64(m[3]*v[1]) + float64(m[6]*v[2]),
		float64(m[1]*v[0]) + float64(m[4]*v[1]) + float64(m[7]*v[2]),
		float64(m[2]*v[0]) + float64(m[5]*v[1]) + float64(m[8]*v[2]),
	}
}

// after returns m b.
func (m *Matrix) after(b *Matrix) (product Matrix) {
	for i := 0; i < 9; i += 3 {
		for j := range 3 {
			product[i+j] = float64(m[i]*b[j]) + float64(m[i+1]*b[3+j]) + float64(m[i+2]*b[6+j])
		}
	}
	return product
}

// turn returns the rotation about a unit axis by an angle, rad.
func turn(axis Vector, angle float64) Matrix {
	x, y, z := axis[0], axis[1], axis[2]
	sine, cosine := sineCosine(angle)
	c := 1 - cosine
	xs, ys, zs := float64(x*sine), float64(y*sine), float64(z*sine)
	xy, yz, zx := float64(float64(x*y)*c), float64(float64(y*z)*c), float64(float64(z*x)*c)
	return Matrix{
		cosine + float64(float64(x*x)*c), xy - zs, zx + ys,
		xy + zs, cosine + float64(float64(y*y)*c), yz - xs,
		zx - ys, yz + xs, cosine + float64(float64(z*z)*c),
	}
}

// Heading returns the rotation from the base's frame into the frame that looks where the base
// looks, with z upwards. down is the direction of gravity in the base. The base looks nowhere if
// its x axis is vertical.
func Heading(down Vector) Matrix {
	up := down.times(-1 / max(down.Norm(), 1e-9))
	forward := Vector{1, 0, 0}.minus(up.times(up[0]))
	forward = forward.times(1 / max(forward.Norm(), 1e-9))
	left := up.Cross(forward)
	return Matrix{
		forward[0], forward[1], forward[2], left[0], left[1], left[2], up[0], up[1], up[2],
	}
}

// rotation returns that of a unit quaternion w x y z.
func rotation(q [4]float64) Matrix {
	w, x, y, z := q[0], q[1], q[2], q[3]
	twice := func(a, b float64) float64 { return float64(2 * float64(a*b)) }
	return Matrix{
		1 - twice(y, y) - twice(z, z), twice(x, y) - twice(w, z), twice(x, z) + twice(w, y),
		twice(x, y) + twice(w, z), 1 - twice(x, x) - twice(z, z), twice(y, z) - twice(w, x),
		twice(x, z) - twice(w, y), twice(y, z) + twice(w, x), 1 - twice(x, x) - twice(y, y),
	}
}

// π/2 as a sum of three parts, of which the first two have trailing zeros: their products with
// small integers are exact.
const (
	halfPi1 = 1.57079625129699707031
	halfPi2 = 7.54978941586159635335e-8
	halfPi3 = 5.39030252995776476554e-15
)

// The coefficients of Taylor's series from x³ and x² on. For |x| <= π/4 the first omitted terms are
// below 1e-18.
var (
	sines = [...]float64{
		-1. / 6, 1. / 120, -1. / 5040, 1. / 362880, -1. / 39916800, 1. / 6227020800, -1. / 1307674368000,
		1. / 355687428096000,
	}
	cosines = [...]float64{
		-1. / 2, 1. / 24, -1. / 720, 1. / 40320, -1. / 3628800, 1. / 479001600, -1. / 87178291200, 1. / 20922789888000,
	}
)

// polynomial returns x (c0 + x (c1 + ...)).
func polynomial(c *[8]float64, x float64) (sum float64) {
	for i := len(c) - 1; i >= 0; i-- {
		sum = float64((sum + c[i]) * x)
	}
	return sum
}

// sineCosine returns sine and cosine of an angle of at most 1,000 rad. The package math may fuse
// products.
func sineCosine(angle float64) (sine, cosine float64) {
	quarters := math.Floor(float64(angle*(2/math.Pi)) + 0.5)
	x := angle - float64(quarters*halfPi1) - float64(quarters*halfPi2) - float64(quarters*halfPi3)
	xx := float64(x * x)
	sine, cosine = x+float64(x*polynomial(&sines, xx)), 1+polynomial(&cosines, xx)
	switch int64(quarters) & 3 {
	case 1:
		return cosine, -sine
	case 2:
		return -sine, -cosine
	case 3:
		return -cosine, sine
	}
	return sine, cosine
}
