package taskprior

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/tflite"
)

// waves are d features of observations with width elements: cosines of random directions.
type waves struct {
	width, d int
	err      error
}

func (w waves) Dims() tflite.Dims { return tflite.Dims{Obs: w.width, Latent: w.d} }

func (w waves) Phi(dst []float64, obs []float32) error {
	for j := range dst {
		angle := float64(j)
		for c, x := range obs {
			angle += math.Sin(float64(1+j*w.width+c)) * float64(x)
		}
		dst[j] = 0.3 + math.Cos(angle)
	}
	return w.err
}

// still are features that do not vary.
type still struct{ waves }

func (still) Phi(dst []float64, _ []float32) error {
	for j := range dst {
		dst[j] = 1
	}
	return nil
}

// observations returns n random rows. Channel 1 is constant.
func observations(n, width int) []float32 {
	rng := rand.New(rand.NewPCG(3, 4))
	obs := make([]float32, n*width)
	for i := range obs {
		if i%width != 1 {
			obs[i] = float32(rng.NormFloat64())
		}
	}
	return obs
}

func seeded() *rand.Rand { return rand.New(rand.NewPCG(8, 9)) }

func someStates(t *testing.T) *states {
	t.Helper()
	s, err := newStates(waves{width: 7, d: 6}, observations(400, 7), nil, seeded())
	fatal.If(t, err)
	return s
}

// The reference is a least-squares solution by QR with a column of ones, without centring or ridge.
func TestTasks_AreRegressionsOfTheRewards(t *testing.T) {
	s := someStates(t)
	k := everything(s.varying)
	const count = 70 // more than a block
	got, err := s.tasks(k, count, seeded())
	fatal.If(t, err)
	n, d := s.phi().values.Dims()
	design := mat.NewDense(n, d+1, nil)
	for i := range n {
		for j := range d {
			design.Set(i, j, s.phi().values.At(i, j)+s.mean[j])
		}
		design.Set(i, d, 1)
	}
	rng := seeded()
	reward := mat.NewVecDense(n, nil)
	for i := range count {
		k.draw(reward.RawVector().Data, s, rng)
		var solution, residual mat.VecDense
		fatal.If(t, solution.SolveVec(design, reward))
		for j := range d {
			if want := solution.AtVec(j); math.Abs(got.w.At(i, j)-want) > 1e-4*(1+math.Abs(want)) {
				t.Errorf("reward %d: z[%d] is %g, want %g", i, j, got.w.At(i, j), want)
			}
		}
		residual.MulVec(design, &solution)
		residual.SubVec(reward, &residual)
		mean := mat.Sum(reward) / float64(n)
		deviations := mat.Dot(reward, reward) - float64(n)*mean*mean
		if want := 1 - mat.Dot(&residual, &residual)/deviations; math.Abs(got.weights[i]-want) > 1e-5 {
			t.Errorf("reward %d: weight %g, want %g", i, got.weights[i], want)
		}
	}
}

func TestTasks_ConstantRewardWeighsNothing(t *testing.T) {
	s := someStates(t)
	for i := range s.columns[0] {
		s.columns[0][i] = 100 // beyond the ramps of the former values
	}
	got, err := s.tasks(kind{shapes: []tflite.Shape{tflite.Ramp}, channels: []int{0}}, 20, seeded())
	fatal.If(t, err)
	for i, w := range got.weights {
		if w > 1e-9 || math.IsNaN(got.w.At(i, 0)) {
			t.Errorf("weight %g, z %v", w, mat.Row(nil, i, got.w))
		}
	}
}

// The reference sums the probabilities of all orders of the draws.
func TestPick_GroupsAreAsLikelyAsEachOther(t *testing.T) {
	s := &states{groups: []string{"imu", "height", "imu", "imu", "force", "force", "", ""}}
	s.columns = make([][]float64, len(s.groups))
	k, rng := kind{channels: []int{0, 1, 2, 4, 5, 6, 7}}, seeded() // not channel 3
	p := map[int]float64{0: 0.1, 1: 0.2, 2: 0.1, 4: 0.1, 5: 0.1, 6: 0.2, 7: 0.2}
	const draws = 20_000
	found := make(map[[2]int]float64)
	for range draws {
		picked := k.pick(2, s, rng)
		slices.Sort(picked)
		found[[2]int(picked)]++
	}
	for a := range p {
		for b := range p {
			if a >= b {
				continue
			}
			want := p[a]*p[b]/(1-p[a]) + p[b]*p[a]/(1-p[b])
			got := found[[2]int{a, b}] / draws
			if tolerance := 4 * math.Sqrt(want/draws); math.Abs(got-want) > tolerance {
				t.Errorf("channels %d and %d: share %.4f of the draws, want %.4f ± %.4f", a, b, got, want, tolerance)
			}
		}
	}
}

func TestNewStates_RefusesGroupsOfOtherChannels(t *testing.T) {
	if _, err := newStates(waves{width: 7, d: 6}, observations(400, 7), []string{"imu"}, seeded()); err == nil {
		t.Error("one group for seven channels: no error")
	}
}

// The weighted mean of zᵀM⁻¹z is the trace of M⁻¹M, d.
func TestTasks_MeanSquareUnderTheirOwnMomentIs1(t *testing.T) {
	s := someStates(t)
	all, err := s.tasks(everything(s.varying), 300, seeded())
	fatal.If(t, err)
	mean, total := 0.0, 0.0
	for i, u2 := range all.squares(all.moment()) {
		mean += all.weights[i] * u2
		total += all.weights[i]
	}
	if mean /= total; math.Abs(mean-1) > 1e-9 {
		t.Errorf("the mean of u²/d is %g, want 1", mean)
	}
	few := tasks{all.w.Slice(0, 3, 0, 6).(*mat.Dense), all.weights[:3]}
	if u2 := few.squares(few.moment()); !math.IsInf(u2[0], 1) {
		t.Errorf("u²/d under a singular moment is %g", u2)
	}
}

func TestExamples_AreTasksInProportionToTheirWeights(t *testing.T) {
	set := tasks{mat.NewDense(4, 2, []float64{0, 1, 2, 3, 4, 5, 6, 7}), []float64{0.5, 0, 0.25, 0.25}}
	count := map[[2]float32]int{}
	for e := set.examples(400, seeded()); len(e) > 0; e = e[2:] {
		count[[2]float32{e[0], e[1]}]++
	}
	for task, want := range map[[2]float32]int{{0, 1}: 200, {4, 5}: 100, {6, 7}: 100} {
		if got := count[task]; got < want-1 || got > want+1 {
			t.Errorf("task %v is an example %d times, want %d", task, got, want)
		}
	}
	if len(count) != 3 {
		t.Errorf("examples %v", count)
	}
	set.weights = make([]float64, 4)
	if e := set.examples(10, seeded()); len(e) != 0 {
		t.Errorf("examples %v of tasks without weight", e)
	}
}

func TestScaledFirst_ScalesTheFirstCoefficients(t *testing.T) {
	m := mat.NewSymDense(3, []float64{4, 1, 8, 1, 2, 6, 8, 6, 3})
	want := mat.NewSymDense(3, []float64{1, 0.25, 4, 0.25, 0.5, 3, 4, 3, 3})
	if got := scaledFirst(m, 2, 0.5); !mat.Equal(got, want) {
		t.Errorf("%v, want %v", mat.Formatted(got), mat.Formatted(want))
	}
}

func TestShrunk_KeepsTheTrace(t *testing.T) {
	m := mat.NewSymDense(3, []float64{4, 1, 0, 1, 2, 0, 0, 0, 0})
	for k, want := range map[int][]float64{
		0: {3.5, 0.75, 0, 0.75, 2, 0, 0, 0, 0.5},
		1: {4, 0.75, 0, 0.75, 1.75, 0, 0, 0, 0.25},
	} {
		if got := shrunk(m, k, 0.25); !mat.EqualApprox(got, mat.NewSymDense(3, want), 1e-12) {
			t.Errorf("%d residuals: %v, want %v", k, mat.Formatted(got), want)
		}
	}
}

func TestChoose_TakesTheLeastShareThatIsCalibrated(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for name, c := range map[string]struct {
		list []candidate
		want float64
	}{
		"first":      {[]candidate{{0, 1, 3, 1.5}, {0.1, 1, 2, 1}}, 0},
		"second":     {[]candidate{{0, 1, 5, 2.5}, {0.1, 1, 4, 2}, {0.3, 1, 2, 1}}, 0.1},
		"least":      {[]candidate{{0, 1, 9, 4.5}, {0.1, 1, 5, 2.5}, {0.3, 1, 6, 3}}, 0.1},
		"singular":   {[]candidate{{0, inf, inf, inf}, {0.1, 1, 8, 4}}, 0.1},
		"impossible": {[]candidate{{0, inf, inf, inf}, {0.1, nan, nan, nan}}, -1},
	} {
		got, err := choose(c.list)
		if (err != nil) != (c.want < 0) || err == nil && got.isotropic != c.want {
			t.Errorf("%s: %+v, %v, want share %g", name, got, err, c.want)
		}
	}
}

func TestNewCandidate_WidthCoversMedianAndTail(t *testing.T) {
	ones := func(n int) []float64 { return slices.Repeat([]float64{1}, n) }
	u2 := []float64{9, 1, 2, 3, 4, 5, 6, 7, 8, 10}
	if c := newCandidate(0, slices.Clone(u2), ones(10)); c.p50 != 5 || c.p90 != 9 || c.width != 5 {
		t.Errorf("%+v, want percentiles 5 and 9, width 5", c)
	}
	u2[0] = 90
	weights := ones(10)
	weights[0] = 4 // 90 is now the upper 4 of 13
	if c := newCandidate(0, u2, weights); c.p90 != 90 || c.width != 45 {
		t.Errorf("%+v, want percentile 90, width 45", c)
	}
}

// A reward of some channels must not depend on the others: else a left-out channel is not left out.
func TestFolds_LeaveWholeFamiliesAndChannelsOut(t *testing.T) {
	s := someStates(t)
	seen := make(map[int]int)
	list := folds(s.varying, seeded())
	for _, f := range list[4:] {
		for _, c := range f.left.channels {
			seen[c]++
			if slices.Contains(f.kept.channels, c) {
				t.Errorf("channel %d is both kept and left out", c)
			}
		}
		if len(f.kept.channels)+len(f.left.channels) != len(s.varying) {
			t.Errorf("kept %v, left out %v of %v", f.kept.channels, f.left.channels, s.varying)
		}
	}
	for _, c := range s.varying {
		if seen[c] != 1 {
			t.Errorf("channel %d is left out %d times", c, seen[c])
		}
	}
	for i, f := range list[:3] {
		if left := f.left; len(left.shapes) != 1 || left.near != 0 || slices.Contains(f.kept.shapes, left.shapes[0]) {
			t.Errorf("fold %d keeps %v and leaves %v out", i, f.kept, left)
		}
	}
	if near := list[3]; near.kept.near != 0 || near.left.near != 1 {
		t.Errorf("nearness: kept %v, left out %v", near.kept, near.left)
	}
	k := everything([]int{2, 4, 5})
	before, after := make([]float64, 400), make([]float64, 400)
	for range 50 {
		seed := rand.Uint64()
		k.draw(before, s, rand.New(rand.NewPCG(seed, 1)))
		for _, c := range []int{0, 1, 3, 6} {
			for i := range s.columns[c] {
				s.columns[c][i] = rand.Float64()
			}
		}
		k.draw(after, s, rand.New(rand.NewPCG(seed, 1)))
		if !slices.Equal(before, after) {
			t.Fatal("a reward depends on a channel of another kind")
		}
		if slices.Min(after) < 0 || slices.Max(after) > 1 {
			t.Fatalf("a reward is %g to %g", slices.Min(after), slices.Max(after))
		}
	}
}

func TestEstimate_IsValidCalibratedAndDeterministic(t *testing.T) {
	w, obs := waves{width: 7, d: 6}, observations(500, 7)
	o := Options{Rewards: 400, Seed: 2}
	p, err := Estimate(w, obs, o)
	fatal.If(t, err)
	errtest.Nil(t, p.Validate(7, 6))
	if p.P50 > 1 || p.P90 > 2+1e-9 || p.States != 500 || p.Rewards != 400 || p.Seed != 2 {
		t.Errorf("%+v", p)
	}
	again, err := Estimate(w, obs, o)
	if err != nil || !reflect.DeepEqual(p, again) {
		t.Errorf("the same seed gave another prior (%v)", err)
	}
	o.Seed++
	if other, err := Estimate(w, obs, o); err != nil || slices.Equal(other.Moment, p.Moment) {
		t.Errorf("another seed gave the same prior (%v)", err)
	}
}

func TestEstimate_WorksWithOneVaryingChannel(t *testing.T) {
	obs := observations(500, 2)
	if p, err := Estimate(waves{width: 2, d: 6}, obs, Options{Rewards: 200}); err != nil || p.Validate(2, 6) != nil {
		t.Errorf("%v", err)
	}
}

func TestEstimate_RejectsBadInput(t *testing.T) {
	good, obs, o := waves{width: 7, d: 6}, observations(500, 7), DefaultOptions()
	with := func(x float32) []float32 {
		changed := slices.Clone(obs)
		changed[7*300+2] = x
		return changed
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for name, c := range map[string]struct {
		f     Features
		obs   []float32
		o     Options
		words string
	}{
		"cut row":           {good, obs[1:], o, "3499 numbers, want a multiple of 7"},
		"none":              {good, nil, o, "0 observations are too few"},
		"few states":        {good, obs[:7*59], o, "record at least 60"},
		"many features":     {waves{7, 2001, nil}, obs, Options{Rewards: 1e6}, "too many (at most 2000)"},
		"few rewards":       {waves{7, 20, nil}, obs, Options{Rewards: 199}, "use at least 200"},
		"negative":          {good, obs, Options{Rewards: -1}, "use at least 100"},
		"NaN":               {good, with(nan), o, "channel 2 of an observation is not finite"},
		"infinite":          {good, with(inf), o, "channel 2 of an observation is not finite"},
		"stopped robot":     {good, make([]float32, 7*500), o, "no channel of the observations varies"},
		"constant features": {still{good}, obs, o, "features of the observations do not vary"},
		"failing model":     {waves{7, 6, errors.New("x")}, obs, o, "observation 0: x"},
	} {
		errtest.Contains(t, errtest.Of(Estimate(c.f, c.obs, c.o)), c.words, name)
	}
}

func TestEstimate_RewardsUseTheirRange(t *testing.T) {
	w, obs := waves{width: 7, d: 6}, observations(500, 7)
	p, err := Estimate(w, obs, Options{Rewards: 200, Seed: 1})
	fatal.If(t, err)
	phi, sum := make([]float64, 6), 0.0
	first, n := len(p.Residuals.Terms), len(p.Residuals.Terms)+6
	for i := range 500 {
		fatal.If(t, w.Phi(phi, obs[i*7:(i+1)*7]))
		for j := range 6 {
			for k := range 6 {
				sum += (phi[j] - p.Mean[j]) * p.Moment[(first+j)*n+first+k] * (phi[k] - p.Mean[k]) / 500
			}
		}
	}
	if got := math.Sqrt(sum); got < 0.3-1e-9 {
		t.Errorf("rewards have a standard deviation of %g, want at least 0.3", got)
	}
}
