package body

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"math"
	"os"
	"slices"
	"testing"

	"optibfm/hal/legged"
	"optibfm/internal/fatal"
	"optibfm/internal/npz"
)

const (
	channels = 37 // of the readings of scripts/record_legged.py
	tick     = int64(20e6)
	second   = int(1e9 / tick)
)

// robot is the recording of one robot.
type robot struct {
	readings [][]float64 // positions, velocities, gravity, gyro, accelerometer, feet
	truth    [][]float64 // velocity and height
}

// recorded returns the robots of a scene.
func recorded(t *testing.T, file npz.Archive, scene string) []robot {
	t.Helper()
	shaped := func(name string, width int) ([]float64, []int) {
		array, err := file.Shaped(scene+"/"+name, -1, -1, width)
		fatal.If(t, err)
		return array.Float64s(), array.Shape()
	}
	readings, shape := shaped("readings", channels)
	truth, _ := shaped("truth", 4)
	robots := make([]robot, shape[0])
	for i := range robots {
		r := readings[i*shape[1]*channels:][:shape[1]*channels]
		robots[i] = robot{
			slices.Collect(slices.Chunk(r, channels)), slices.Collect(slices.Chunk(truth[i*shape[1]*4:][:shape[1]*4], 4)),
		}
	}
	return robots
}

// sample returns the readings of a tick. A foot touches the floor with 10 N and carries with 30 N.
func sample(row []float64) *legged.Sample {
	s := &legged.Sample{
		Position: row[:12], Velocity: row[12:24], Down: vector(row[24:]), Gyro: vector(row[27:]),
		Accelerometer: vector(row[30:]), Load: make([]float64, 4),
	}
	for i, force := range row[33:] {
		s.Load[i] = min(max((force-10)/20, 0), 1)
	}
	return s
}

// fallen reports whether a robot of the recording lies.
func (r *robot) fallen(i int) bool { return r.readings[i][26] > -0.5 || r.truth[i][3] < 0.12 }

// errors are those of estimates: sums of squares, and the greatest.
type errors struct{ velocity, height, count, worst float64 }

func (e *errors) add(velocity legged.Vector, height float64, truth []float64) {
	square := 0.0
	for i, v := range velocity {
		square += (v - truth[i]) * (v - truth[i])
	}
	e.velocity, e.height, e.count = e.velocity+square, e.height+(height-truth[3])*(height-truth[3]), e.count+1
	e.worst = max(e.worst, math.Sqrt(square))
}

func (e *errors) rms() (velocity, height float64) {
	return math.Sqrt(e.velocity / e.count), math.Sqrt(e.height / e.count)
}

// scene is a part of the recording.
type scene struct {
	name, of         string
	from, to         int // ticks
	untilFall        bool
	velocity, height float64 // limits of the rms error, m/s, m
}

var scenes = []scene{
	{"stand", "stand", 25, math.MaxInt, true, 0.03, 0.01},
	{"walk", "walk", 25, math.MaxInt, true, 0.08, 0.015},
	{"slip", "slip", 25, math.MaxInt, true, 0.13, 0.015},
	{"flight", "flight", 25, math.MaxInt, true, 0.1, 0.015},
	{"fall", "fall", second, 4 * second, false, 0.6, 0.08},
	{"lying", "fall", 4 * second, math.MaxInt, false, 0.05, 0.02},
}

// recording is that of scripts/record_legged.py; OPTIBFM_TEST_LEGGED names a larger one.
func recording(t *testing.T) npz.Archive {
	t.Helper()
	return open(t, cmp.Or(os.Getenv("OPTIBFM_TEST_LEGGED"), "testdata/go2.npz"))
}

// followed are the errors of all robots of a scene, and the robot with the worst ones.
type followed struct {
	all        errors
	worst      float64 // m/s rms
	worstRobot int
}

func follow(t *testing.T, file npz.Archive, s scene, start func() follower) (f followed) {
	t.Helper()
	for i, r := range recorded(t, file, s.of) {
		var one errors
		e := start()
		for k := range min(len(r.readings), s.to) {
			if s.untilFall && r.fallen(k) {
				break
			}
			e.Update(sample(r.readings[k]), int64(k)*tick)
			if k >= s.from {
				one.add(e.Velocity(), e.Height(), r.truth[k])
			}
		}
		if v, _ := one.rms(); v > f.worst {
			f.worst, f.worstRobot = v, i
		}
		a := &f.all
		f.all = errors{a.velocity + one.velocity, a.height + one.height, a.count + one.count, max(a.worst, one.worst)}
	}
	return f
}

// docs/estimator.md has the errors that this test logs.
func TestEstimator_FollowsASimulatedGo2(t *testing.T) {
	file := recording(t)
	for _, s := range scenes {
		f := follow(t, file, s, func() follower { return legged.NewEstimator(Go2()) })
		velocity, height := f.all.rms()
		t.Logf("%-6s %6.0f ticks: %.3f m/s, %.4f m; the worst robot (%d): %.3f m/s; the worst tick: %.2f m/s",
			s.name, f.all.count, velocity, height, f.worstRobot, f.worst, f.all.worst)
		if !(velocity < s.velocity && height < s.height) {
			t.Errorf("%s: rms errors %.3f m/s and %.4f m, want less than %g and %g",
				s.name, velocity, height, s.velocity, s.height)
		}
	}
}

func TestEstimator_HasTheSameBitsOnEveryCPU(t *testing.T) {
	file, sum := open(t, "testdata/go2.npz"), fnv.New64a()
	for _, scene := range []string{"walk", "fall"} {
		e := legged.NewEstimator(Go2())
		for k, row := range recorded(t, file, scene)[0].readings {
			e.Update(sample(row), int64(k)*tick)
			v := e.Velocity()
			for _, x := range []float64{v[0], v[1], v[2], e.Height()} {
				_ = binary.Write(sum, binary.LittleEndian, x)
			}
		}
	}
	if got, want := sum.Sum64(), uint64(0xe1663690de131bf3); got != want {
		t.Errorf("the estimates have the hash %#x, not %#x", got, want)
	}
}

// One absurd reading must not spoil the estimate for longer than a moment.
func TestEstimator_RecoversFromAbsurdReadings(t *testing.T) {
	if testing.Short() {
		t.Skip("estimates from 150,000 samples; TestEstimator_HasTheSameBitsOnEveryCPU compares processors")
	}
	file := open(t, "testdata/go2.npz")
	const at, later = 100, 10 // ticks
	for _, scene := range []string{"walk", "fall"} {
		r := recorded(t, file, scene)[0]
		for channel := range channels {
			for _, absurd := range []float64{1e30, -3e38, 1000, -290, 150, -99, 49, -9.9, math.NaN(), math.Inf(1)} {
				e, clean := legged.NewEstimator(Go2()), legged.NewEstimator(Go2())
				for k, row := range r.readings[:at+later] {
					clean.Update(sample(row), int64(k)*tick)
					if k == at {
						row = slices.Clone(row)
						row[channel] = absurd
					}
					e.Update(sample(row), int64(k)*tick)
				}
				difference := 0.0
				for i, v := range e.Velocity() {
					difference = max(difference, math.Abs(v-clean.Velocity()[i]))
				}
				if h := math.Abs(e.Height() - clean.Height()); !(difference < 0.1 && h < 0.02) {
					t.Errorf("%s: channel %d was %g: %d ticks later the estimate differs by %g m/s and %g m",
						scene, channel, absurd, later, difference, h)
				}
			}
		}
	}
}

func TestEstimator_BeginsAgainAfterAGapAndIgnoresARepeatedMoment(t *testing.T) {
	rows := recorded(t, open(t, "testdata/go2.npz"), "walk")[0].readings
	e, again := legged.NewEstimator(Go2()), legged.NewEstimator(Go2())
	for k, row := range rows[:50] {
		e.Update(sample(row), int64(k)*tick)
	}
	before := e.Velocity()
	e.Update(sample(rows[60]), 49*tick)
	if e.Velocity() != before {
		t.Error("a second sample of one moment changes the estimate")
	}
	for k, row := range rows[60:80] {
		at := int64(k+60) * tick
		e.Update(sample(row), at)
		again.Update(sample(row), at)
		if e.Velocity() != again.Velocity() || e.Height() != again.Height() {
			t.Fatalf("after a gap of 220 ms: %v, a new estimator %v", e.Velocity(), again.Velocity())
		}
	}
}

// TestEstimator_ForgetsWithoutGoodSamples has readings that no robot can have for longer than a
// moment.
func TestEstimator_ForgetsWithoutGoodSamples(t *testing.T) {
	rows := recorded(t, open(t, "testdata/go2.npz"), "walk")[0].readings
	e, again := legged.NewEstimator(Go2()), legged.NewEstimator(Go2())
	if !math.IsNaN(e.Height()) || !math.IsNaN(e.Velocity()[0]) {
		t.Errorf("an estimate without a sample: %v, %v", e.Velocity(), e.Height())
	}
	e.Update(sample(rows[0]), 0)
	kept := e.Velocity()
	impossible := sample(slices.Clone(rows[0]))
	impossible.Down = legged.Vector{}
	for k := int64(1); k <= 7; k++ {
		e.Update(impossible, k*tick)
		if lost := math.IsNaN(e.Height()) && math.IsNaN(e.Velocity()[2]); lost != (k > 5) || !lost && e.Velocity() != kept {
			t.Errorf("after %d ms: %v, %v", k*tick/1e6, e.Velocity(), e.Height())
		}
	}
	for k, row := range rows[8:20] {
		at := int64(k+8) * tick
		e.Update(sample(row), at)
		again.Update(sample(row), at)
		if e.Velocity() != again.Velocity() || e.Height() != again.Height() {
			t.Fatalf("after the gap: %v, a new estimator %v", e.Velocity(), again.Velocity())
		}
	}
}

func TestEstimator_AllocatesNothing(t *testing.T) {
	row := recorded(t, open(t, "testdata/go2.npz"), "walk")[0].readings[50]
	e, s, at := legged.NewEstimator(Go2()), sample(row), int64(0)
	if n := testing.AllocsPerRun(100, func() { at += tick; e.Update(s, at) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func BenchmarkEstimator_Update(b *testing.B) {
	for name, tree := range trees {
		b.Run(name, func(b *testing.B) {
			n, at := len(tree.Joints), int64(0)
			e := legged.NewEstimator(tree)
			s := &legged.Sample{Position: make([]float64, n), Velocity: make([]float64, n), Down: legged.Vector{0, 0, -1}}
			for b.Loop() {
				at += tick
				e.Update(s, at)
			}
		})
	}
}
