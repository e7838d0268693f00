package body

import (
	"cmp"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"optibfm/hal/legged"
	"optibfm/internal/fatal"
	"optibfm/internal/npz"
)

// The sizes of BFM-Zero's B: it reads state and privileged_state.
const (
	g1Joints, g1State, g1Privileged = 29, 64, 463
	bInput, bHidden, latent         = g1State + g1Privileged, 256, 256
)

// features is BFM-Zero's B with random weights: standardised inputs, a linear layer, LayerNorm,
// tanh, a linear layer; the output has the norm √d.
type features struct {
	first, second  *mat.Dense
	bias           []float64
	mean, variance []float64 // of the inputs
}

func randomFeatures(seed uint64, inputs [][]float64) *features {
	random := rand.New(rand.NewPCG(seed, 0))
	gaussian := func(rows, columns int) *mat.Dense {
		m := mat.NewDense(rows, columns, nil)
		for i := range rows {
			for j := range columns {
				m.Set(i, j, random.NormFloat64()/math.Sqrt(float64(columns)))
			}
		}
		return m
	}
	f := &features{
		first: gaussian(bHidden, bInput), second: gaussian(latent, bHidden), bias: make([]float64, bHidden),
		mean: make([]float64, bInput), variance: make([]float64, bInput),
	}
	for i := range f.bias {
		f.bias[i] = 0.1 * random.NormFloat64()
	}
	n := float64(len(inputs))
	for i := range bInput {
		for _, x := range inputs {
			f.mean[i] += x[i] / n
		}
		for _, x := range inputs {
			f.variance[i] += (x[i] - f.mean[i]) * (x[i] - f.mean[i]) / n
		}
	}
	return f
}

// of returns phi.
func (f *features) of(input []float64) *mat.VecDense {
	x, h, y := mat.NewVecDense(bInput, nil), mat.NewVecDense(bHidden, nil), mat.NewVecDense(latent, nil)
	for i, v := range input {
		x.SetVec(i, (v-f.mean[i])/math.Sqrt(f.variance[i]+1e-5))
	}
	h.MulVec(f.first, x)
	h.AddVec(h, mat.NewVecDense(bHidden, f.bias))
	mean := mat.Sum(h) / bHidden
	square := 0.0
	for _, v := range h.RawVector().Data {
		square += (v - mean) * (v - mean) / bHidden
	}
	for i, v := range h.RawVector().Data {
		h.SetVec(i, math.Tanh((v-mean)/math.Sqrt(square+1e-5)))
	}
	y.MulVec(f.second, h)
	y.ScaleVec(math.Sqrt(latent)/mat.Norm(y, 2), y)
	return y
}

func cosine(a, b mat.Vector) float64 { return mat.Dot(a, b) / mat.Norm(a, 2) / mat.Norm(b, 2) }

// inferred returns the z of labels with λ = 1.
func inferred(phi []*mat.VecDense, reward []float64) *mat.VecDense {
	precision, b := mat.NewSymDense(latent, nil), mat.NewVecDense(latent, nil)
	for i := range latent {
		precision.SetSym(i, i, 1)
	}
	for k, p := range phi {
		precision.SymRankOne(precision, 1, p)
		b.AddScaledVec(b, reward[k], p)
	}
	var factor mat.Cholesky
	factor.Factorize(precision)
	z := mat.NewVecDense(latent, nil)
	_ = factor.SolveVecTo(z, b)
	return z
}

var g1Pose = []float64{-0.1, 0, 0, 0.3, -0.2, 0, -0.1, 0, 0, 0.3, -0.2, 0, 28: 0} // rad: positions are relative to it

// g1Tick is a moment of a recorded G1: the inputs of B with the true velocity and height, and with
// the estimates.
type g1Tick struct{ known, estimated, truth []float64 }

const (
	g1Settling = 25                              // ticks until it has dropped to the floor
	pelvisAt   = g1Privileged - 2*3*(g1Joints+2) // the velocities of links and head begin; then their angular velocities
	readingsOf = g1Joints + g1Joints + 3 + 3 + 3 // of scripts/record_g1.py
	labels     = 40
)

// g1Ticks runs the estimator on a scene.
func g1Ticks(t *testing.T, file npz.Archive, scene string) (ticks []g1Tick) {
	t.Helper()
	readings, err := file.Shaped(scene+"/readings", -1, -1, readingsOf)
	fatal.If(t, err)
	truth, err := file.Shaped(scene+"/truth", -1, -1, 4)
	fatal.If(t, err)
	length := readings.Shape()[1]
	truths := slices.Collect(slices.Chunk(truth.Float64s(), 4))
	var e *Estimates
	for k, row := range slices.Collect(slices.Chunk(readings.Float64s(), readingsOf)) {
		if k%length == 0 {
			e = NewG1()
		}
		one := g1Tick{truth: truths[k]}
		one.known, one.estimated = inputs(e, int64(k%length+1)*tick, row, truths[k])
		if k%length >= g1Settling {
			ticks = append(ticks, one)
		}
	}
	return ticks
}

// inputs returns those of B for a row of readings: with the true velocity and height of the base,
// and with the estimates. All links have the velocity of the base.
func inputs(e *Estimates, at int64, row, truth []float64) (known, estimated []float64) {
	angles := slices.Clone(row[:g1Joints])
	for i := range angles {
		angles[i] += g1Pose[i]
	}
	own, privileged := narrow(row), make([]float32, g1Privileged)
	e.Fill(privileged, &Measured{
		At: at, Position: narrow(angles), Velocity: own[g1Joints : 2*g1Joints],
		Down: [3]float32(own[58:]), Gyro: [3]float32(own[61:]), Accelerometer: [3]float32(own[64:]),
	})
	estimated = append(slices.Clone(row[:61]), 0.25*row[61], 0.25*row[62], 0.25*row[63])
	for _, x := range privileged {
		estimated = append(estimated, float64(x))
	}
	difference := vector(truth)
	for i, v := range e.estimator.Velocity() {
		difference[i] -= v
	}
	frame := legged.Heading(vector(row[58:]))
	turned := frame.Apply(difference)
	known = slices.Clone(estimated)
	known[g1State] = truth[3]
	for i := range 3 * (g1Joints + 2) {
		known[g1State+pelvisAt+i] += turned[i%3]
	}
	return known, estimated
}

// changes are those of a scene's phi and z by the errors of the estimates.
type changes struct {
	velocity, height float64   // rms errors, m/s, m
	phi              []float64 // cosines, sorted
	high, forward    float64   // cosines of z
}

func changesOf(ticks []g1Tick, b *features) (c changes) {
	n := float64(len(ticks))
	var known, estimated []*mat.VecDense
	var high, forward []float64
	for k, one := range ticks {
		p, q := b.of(one.known), b.of(one.estimated)
		c.phi = append(c.phi, cosine(p, q))
		for i := range 3 {
			d := one.known[g1State+pelvisAt+i] - one.estimated[g1State+pelvisAt+i]
			c.velocity += d * d / n
		}
		d := one.known[g1State] - one.estimated[g1State]
		c.height += d * d / n
		if k%(len(ticks)/labels) == 0 && len(known) < labels {
			known, estimated = append(known, p), append(estimated, q)
			high, forward = append(high, one.truth[3]), append(forward, one.truth[0])
		}
	}
	slices.Sort(c.phi)
	c.velocity, c.height = math.Sqrt(c.velocity), math.Sqrt(c.height)
	c.high = cosine(inferred(known, high), inferred(estimated, high))
	c.forward = cosine(inferred(known, forward), inferred(estimated, forward))
	return c
}

// docs/estimator.md has the numbers that this test logs.
func TestEstimates_OfAG1ChangePhiLittle(t *testing.T) {
	file := open(t, cmp.Or(os.Getenv("OPTIBFM_TEST_G1"), "testdata/g1.npz"))
	var all [][]float64
	scenes := map[string][]g1Tick{}
	limits := map[string]float64{"stand": 0.1, "squat": 0.1, "step": 0.15, "fall": 0.3} // m/s rms
	for scene := range limits {
		scenes[scene] = g1Ticks(t, file, scene)
		for _, one := range scenes[scene] {
			all = append(all, one.known)
		}
	}
	b := randomFeatures(1, all)
	for scene, limit := range limits {
		c := changesOf(scenes[scene], b)
		mean := mat.Sum(mat.NewVecDense(len(c.phi), c.phi)) / float64(len(c.phi))
		t.Logf("%-5s %5d ticks: %.3f m/s, %.4f m; cosine of phi: mean %.4f, 5 %% %.4f, least %.3f; of z of %d labels: "+
			"height %.4f, forward %.4f", scene, len(c.phi), c.velocity, c.height, mean, c.phi[len(c.phi)/20], c.phi[0],
			labels, c.high, c.forward)
		if !(c.velocity < limit && mean > 0.98 && mean < 1 && c.high > 0.9) {
			t.Errorf("%s: the rms error of the velocity is %.3f m/s, the mean cosine of phi %.4f, that of z %.4f; want "+
				"less than %g, more than 0.98 and 0.9", scene, c.velocity, mean, c.high, limit)
		}
	}
}
