package report

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// simulation writes a log on random features, as a run does. The operator answers late,
// sometimes cannot tell, presses without a request and undoes presses.
type simulation struct {
	cfg     controller.Config
	d       int
	ticks   uint64
	rewards bool                    // ticks carry the reward of the true z
	silent  bool                    // the operator does nothing
	warm    bool                    // the belief holds a label at the start
	blind   bool                    // no snapshots
	drop    func(index uint64) bool // ticks that do not reach the log
	name    string                  // of the robot; "" is testbot
	events  []flightlog.Event
	fault   uint64                      // the tick from which on the robot is halted, 0 for never
	flags   map[uint64]controller.Flags // further flags of ticks
	seen    bool                        // the robot has a pose, and every tenth tick a picture
}

// poseNames are the observations of a robot with a pose.
var poseNames = []string{"x", "y", "heading_cos", "heading_sin"}

func simulated() simulation {
	cfg := controller.DefaultConfig()
	cfg.Rho, cfg.Gate.Kappa, cfg.Gate.RequestsPerMinute = 0.999, 0.05, 0
	return simulation{cfg: cfg, d: 16, ticks: 500, rewards: true}
}

const period = 20 * time.Millisecond

// write returns the path of the log.
func (s simulation) write(t testing.TB) string {
	t.Helper()
	shape := controller.Shape{Obs: 3, Action: 2, Latent: s.d}
	robot := hal.Spec{Name: cmp.Or(s.name, "testbot"), Period: period}
	if s.seen {
		shape.Obs = len(poseNames)
		for _, name := range poseNames {
			robot.Obs = append(robot.Obs, hal.Channel{Name: name, Unit: "m"})
		}
	}
	path := filepath.Join(t.TempDir(), "run.mcap")
	w, err := flightlog.Create(path, flightlog.Metadata{
		Program: "test", ModelHash: "0123456789abcdef0123", Posture: "fifo_priority: granted\nlock_memory: refused",
		Robot: robot, Shape: shape,
		Clock: flightlog.Clock{MonoNS: 1, WallNS: 1_700_000_000_000_000_000}, Control: s.cfg,
		Extra: map[string]string{"task": "stand"},
	}, flightlog.Options{NoSync: true})
	must(t, err)
	rng := rand.New(rand.NewPCG(3, 5))
	run := &simulatedRun{simulation: s, t: t, w: w, rng: rng, tick: controller.NewTick(shape)}
	run.learner, err = controller.NewLearner(s.cfg, s.d, period)
	must(t, err)
	run.gate = controller.NewGate(s.cfg.Gate, run.learner.LabelWeight(), period)
	run.truth = run.vector()
	if s.warm {
		must(t, run.learner.WarmStart(run.truth, []float64{1}))
	}
	if s.seen {
		run.pictures = w.Pictures(0)
	}
	run.snapshot(0)
	index, elapsed := uint64(0), uint64(0)
	for range s.ticks {
		run.step(index, elapsed)
		elapsed = 1
		if run.rng.IntN(20) == 0 {
			elapsed += run.rng.Uint64N(3) // skipped periods
		}
		index += elapsed
	}
	if s.seen {
		must(t, run.pictures.Close())
	}
	must(t, w.Close())
	return path
}

type simulatedRun struct {
	simulation
	t testing.TB
	w *flightlog.Writer

	pictures *flightlog.PictureWriter

	rng     *rand.Rand
	learner *controller.Learner
	gate    *controller.Gate
	truth   []float64
	tick    *controller.Tick
	lastID  uint64
	waiting []rewardsrc.Label // At is the tick of delivery until then
}

func (r *simulatedRun) step(index, elapsed uint64) {
	at := int64(index+1) * int64(period)
	flags := controller.FlagArmed
	if r.rewards {
		flags |= controller.FlagReward
	}
	*r.tick.Header = controller.Header{
		Index: index, Elapsed: elapsed,
		Deadline: at, Wake: at + r.rng.Int64N(2e5), SenseAt: at + 3e5, Done: at + 4e5 + r.rng.Int64N(1e6),
		Step: uint32(index), PlanTick: index - index%5, PlanConfirmed: index - index%5,
	}
	copy(r.tick.Phi, r.vector())
	if index%5 == 0 {
		copy(r.tick.Z, r.vector())
	}
	if index == 0 {
		flags |= controller.FlagEpisodeStart
	}
	r.learner.Advance(elapsed)
	r.learner.Observe(index, r.tick.SenseAt, r.tick.Phi, nil)
	r.tick.NormSq = r.learner.Belief().NormSq(r.tick.Phi)
	r.tick.DGap = posterior.DGap(r.tick.NormSq, r.learner.LabelWeight())
	r.tick.Reward = dot(r.tick.Phi, r.truth)
	if r.fault > 0 && index >= r.fault {
		r.tick.Fault = controller.FaultStalePlan
	}
	if closed, ok := r.gate.Expire(index); ok {
		must(r.t, r.w.WriteRequest(closed))
	}
	if r.gate.Passes(r.tick.NormSq) {
		if request, ok := r.gate.Ask(index, r.tick.SenseAt, r.tick.DGap); ok {
			flags |= controller.FlagAsked
			r.asked(request)
		}
	}
	r.pressUnasked(index)
	r.deliver(index)
	r.tick.Flags = flags | r.flags[index]
	r.tick.Request = r.gate.OpenRequest()
	r.tick.Revised = r.learner.Settle(r.tick.Index)
	r.tick.Sigma, r.tick.Zero = r.learner.Sigma(), r.learner.Zero()
	r.tick.LogDet, r.tick.Hash = r.learner.Belief().LogDet(), r.learner.Belief().Hash()
	if r.seen {
		r.look(index)
	}
	if r.drop == nil || !r.drop(index) {
		must(r.t, r.w.WriteTick(r.tick))
	}
	for _, e := range r.events {
		if index == 10 {
			e.At = r.tick.SenseAt
			must(r.t, r.w.WriteEvent(e))
		}
	}
	if index%200 == 199 {
		r.snapshot(index + 1)
	}
}

// look moves the robot on a circle, and takes a picture whose shade is four times its number.
func (r *simulatedRun) look(index uint64) {
	sin, cos := math.Sincos(float64(index) / 50)
	copy(r.tick.Obs, []float32{float32(sin), float32(-cos), float32(cos), float32(sin)})
	if n := index / 10; index%10 == 0 {
		shade := image.NewUniform(color.Gray{uint8(4 * n)})
		picture := image.NewGray(image.Rect(0, 0, 32, 16))
		draw.Draw(picture, picture.Rect, shade, image.Point{}, draw.Src)
		var out bytes.Buffer
		must(r.t, jpeg.Encode(&out, picture, nil))
		must(r.t, r.pictures.Write(flightlog.Picture{At: r.tick.SenseAt, JPEG: out.Bytes()}))
	}
}

func (r *simulatedRun) asked(request rewardsrc.Request) {
	must(r.t, r.w.WriteRequest(request))
	if r.silent {
		return
	}
	answer := rewardsrc.Label{
		Request: request.ID, Tick: request.Tick, At: int64(request.Tick) + 12,
		Value: r.tick.Reward, Weight: 0.8, Kind: rewardsrc.Value,
	}
	if r.rng.IntN(9) == 0 {
		answer.Kind = rewardsrc.CantTell
	}
	r.waiting = append(r.waiting, answer)
}

func (r *simulatedRun) pressUnasked(index uint64) {
	if r.silent {
		return
	}
	if r.rng.IntN(40) == 0 {
		press := rewardsrc.Label{Tick: rewardsrc.NoTick, At: int64(index), Value: 0.3, Kind: rewardsrc.Value}
		r.waiting = append(r.waiting, press)
	}
	if r.rng.IntN(90) == 0 {
		r.waiting = append(r.waiting, rewardsrc.Label{Tick: rewardsrc.NoTick, At: int64(index), Kind: rewardsrc.Undo})
	}
}

// deliver applies the labels that are due.
func (r *simulatedRun) deliver(index uint64) {
	var later []rewardsrc.Label
	for _, label := range r.waiting {
		if label.At > int64(index) || r.tick.NumLabels == controller.MaxLabels {
			later = append(later, label)
			continue
		}
		r.lastID++
		label.ID, label.At = r.lastID, r.tick.SenseAt
		must(r.t, r.w.WriteLabel(label))
		asked := uint64(0)
		if label.Request != 0 {
			asked, _ = r.gate.Find(label.Request)
			if closed, ok := r.gate.Answer(label.Request); ok {
				must(r.t, r.w.WriteRequest(closed))
			}
		}
		r.tick.Labels[r.tick.NumLabels] = r.learner.Apply(label, asked)
		r.tick.NumLabels++
	}
	r.waiting = later
}

func (r *simulatedRun) snapshot(next uint64) {
	if r.blind {
		return
	}
	state := make([]float64, posterior.StateLen(r.d))
	r.learner.Belief().State(state)
	must(r.t, r.w.WriteSnapshot(flightlog.Snapshot{Next: next, State: state, Hash: r.learner.Belief().Hash()}))
}

func (r *simulatedRun) vector() []float64 {
	v := make([]float64, r.d)
	for i := range v {
		v[i] = r.rng.NormFloat64()
	}
	return v
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, path string) *flightlog.Reader {
	t.Helper()
	r, err := flightlog.Open(path)
	must(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// pageOf returns the page of a log.
func pageOf(t testing.TB, log string) (page []byte, made Made) {
	t.Helper()
	return labelPageOf(t, log, nil)
}

// labelPageOf returns the page of a log, in which a person can label it.
func labelPageOf(t testing.TB, log string, l *Labelling) (page []byte, made Made) {
	t.Helper()
	var out bytes.Buffer
	made, err := Write(&out, open(t, log), "run.mcap", l)
	must(t, err)
	return out.Bytes(), made
}
