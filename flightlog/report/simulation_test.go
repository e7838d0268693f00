package report

import (
	"bytes"
	"errors"
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
	"optibfm/flightlog/flightlogtest"
	"optibfm/hal"
	"optibfm/internal/fatal"
	"optibfm/posterior"
)

// simulation is a simulated run of a robot.
type simulation struct {
	flightlogtest.Run
	name   string // of the robot
	events []flightlog.Event
	fault  uint64 // the tick from which on the robot is halted, 0 for never
	seen   bool   // the robot has a pose, and every tenth tick a picture
	blind  bool   // no snapshots
}

// poseNames are the observations of a robot with a pose.
var poseNames = []string{"x", "y", "heading_cos", "heading_sin"}

func simulated() simulation {
	return simulation{name: "testbot", Run: flightlogtest.Run{
		Config: flightlogtest.Config(), Latent: 16, Period: period, Ticks: 500, Every: 200, Reward: true, CantTell: true,
	}}
}

const period = 20 * time.Millisecond

// write returns the path of the log.
func (s simulation) write(t testing.TB) string {
	t.Helper()
	shape := controller.Shape{Obs: 3, Action: 2, Latent: s.Latent}
	robot := hal.Spec{Name: s.name, Period: period}
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
		Clock: flightlog.Clock{MonoNS: 1, WallNS: 1_700_000_000_000_000_000}, Control: s.Config,
		Extra: map[string]string{"task": "stand"},
	}, flightlog.Options{NoSync: true})
	fatal.If(t, err)
	log := &runLog{Writer: w, simulation: s, tick: controller.NewTick(shape), rng: rand.New(rand.NewPCG(7, 9))}
	if s.seen {
		log.pictures = w.Pictures(0)
	}
	s.Run.Write(t, log, log.newTick)
	if s.seen {
		fatal.If(t, log.pictures.Close())
	}
	fatal.If(t, w.Close())
	return path
}

// runLog is the log of a simulation.
type runLog struct {
	*flightlog.Writer
	simulation
	pictures *flightlog.PictureWriter
	tick     *controller.Tick
	rng      *rand.Rand
}

func (l *runLog) newTick(index uint64) *controller.Tick {
	at := int64(index+1) * int64(period)
	*l.tick.Header = controller.Header{
		Index: index, Deadline: at, Wake: at + l.rng.Int64N(2e5), SenseAt: at + 3e5, Done: at + 4e5 + l.rng.Int64N(1e6),
		Step: uint32(index), PlanTick: index - index%5, PlanConfirmed: index - index%5,
	}
	if l.fault > 0 && index >= l.fault {
		l.tick.Fault = controller.FaultStalePlan
	}
	if index%5 == 0 {
		for i := range l.tick.Z {
			l.tick.Z[i] = l.rng.NormFloat64()
		}
	}
	return l.tick
}

func (l *runLog) WriteTick(tick *controller.Tick) error {
	var errs []error
	if tick.Index == 0 {
		tick.Flags |= controller.FlagEpisodeStart
	}
	if l.seen {
		errs = append(errs, l.look(tick))
	}
	errs = append(errs, l.Writer.WriteTick(tick))
	for _, e := range l.events {
		if tick.Index == 10 {
			e.At = tick.SenseAt
			errs = append(errs, l.WriteEvent(e))
		}
	}
	return errors.Join(errs...)
}

// look moves the robot on a circle, and takes a picture whose shade is four times its number.
func (l *runLog) look(tick *controller.Tick) error {
	sin, cos := math.Sincos(float64(tick.Index) / 50)
	copy(tick.Obs, []float32{float32(sin), float32(-cos), float32(cos), float32(sin)})
	if tick.Index%10 != 0 {
		return nil
	}
	shade := image.NewUniform(color.Gray{uint8(4 * tick.Index / 10)})
	picture := image.NewGray(image.Rect(0, 0, 32, 16))
	draw.Draw(picture, picture.Rect, shade, image.Point{}, draw.Src)
	var out bytes.Buffer
	err := jpeg.Encode(&out, picture, nil)
	return errors.Join(err, l.pictures.Write(flightlog.Picture{At: tick.SenseAt, JPEG: out.Bytes()}))
}

func (l *runLog) WriteLearner(next uint64, learner *controller.Learner, _ string) error {
	if l.blind {
		return nil
	}
	state := make([]float64, posterior.StateLen(l.Latent))
	learner.Belief().State(state)
	return l.WriteSnapshot(flightlog.Snapshot{
		Next: next, State: state, Hash: learner.Belief().Hash(), Noise: learner.Noise(),
	})
}

func open(t testing.TB, path string) *flightlog.Reader {
	t.Helper()
	r, err := flightlog.Open(path)
	fatal.If(t, err)
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
	fatal.If(t, err)
	return out.Bytes(), made
}
