package recording

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/hal/bridge"
	"optibfm/hal/haltest"
	"optibfm/hal/rover"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/npz"
	"optibfm/internal/rigtest"
	"optibfm/rtloop"
)

func TestRecorder_KeepsRegularTransitions(t *testing.T) {
	type step struct {
		obs     float32
		periods int64 // since the sample before
		elapsed uint64
		flags   controller.Flags
	}
	const armed = controller.FlagArmed
	const bad, end = armed | controller.FlagBadObs, armed | controller.FlagEpisodeEnd
	first, second, third := step{0, 1, 1, armed}, step{1, 1, 1, armed}, step{2, 1, 1, armed}
	for name, c := range map[string]struct {
		steps    []step
		next     []float32
		episodes []int64
	}{
		"chain":             {[]step{first, second, third}, []float32{1, 2}, []int64{0, 0}},
		"disarmed":          {[]step{{0, 1, 1, 0}, second, third}, []float32{2}, []int64{0}},
		"missed tick":       {[]step{first, second, {5, 2, 2, armed}, third}, []float32{1, 2}, []int64{0, 1}},
		"repeated sample":   {[]step{first, {0, 0, 1, armed}, {5, 2, 1, armed}, third}, []float32{2}, []int64{0}},
		"bad observation":   {[]step{first, {1, 1, 1, bad}, second, third}, []float32{2}, []int64{0}},
		"end of an episode": {[]step{first, {5, 1, 1, end}, second, third}, []float32{5, 2}, []int64{0, 1}},
		"stop":              {[]step{{0, 1, 1, armed | controller.FlagStopped}, {1, 1, 1, 0}}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(haltest.Spec(1, 1), 10, true)
			tick, at := controller.NewTick(controller.Shape{Obs: 1, Action: 1, Latent: 1}), int64(0)
			for _, s := range c.steps {
				at += s.periods * int64(haltest.Spec(1, 1).Period)
				tick.Obs[0], tick.Elapsed, tick.SenseAt, tick.Flags = s.obs, s.elapsed, at, s.flags
				r.note(tick)
			}
			if got := r.rows; !slices.Equal(got.NextObs, c.next) || !slices.Equal(got.Episode, c.episodes) {
				t.Errorf("next_obs %v, episode %v", got.NextObs, got.Episode)
			}
		})
	}
}

// narrow is a robot whose action has another range and a rate limit.
func narrow() *haltest.Robot {
	spec := haltest.Spec(2, 1)
	spec.Obs[0].Min, spec.Obs[0].Max = -1, 1
	spec.Action[0].Min, spec.Action[0].Max, spec.Action[0].Failsafe, spec.Action[0].MaxRate = 2, 10, 4, 50
	return haltest.New(spec)
}

func realRobot(t *testing.T, robot hal.Robot, transitions int) *session {
	t.Helper()
	file := configs.Default()
	file.Robot.Driver = "bridge"
	rigtest.EditRobot(&file, func(c *bridge.Config) { c.Mode = bridge.Free })
	file.Loop.Priority, file.Loop.LockMemory, file.Loop.MaxMissed, file.Loop.WatchdogMS = 0, false, rtloop.NoLimit, 0
	file.Loop.PeriodMS, file.Controller.Guard.MaxBadTicks = 20, 0
	s, err := newSession(robot, file, Config{
		Transitions: transitions, Seed: 1, Amplitude: 0.25, Out: filepath.Join(t.TempDir(), "out.npz"),
	})
	fatal.If(t, err)
	s.recorder.realTime = false // the fake's times do not skip with the ticks
	return s
}

func TestRun_WritesTheRewardsOfASimulator(t *testing.T) {
	c := Config{Transitions: 300, Seed: 3, Amplitude: 1,
		Out: filepath.Join(t.TempDir(), "out.npz"), States: filepath.Join(t.TempDir(), "states.npz")}
	file := configs.Default()
	fatal.If(t, Run(t.Context(), file, c, nil, io.Discard, io.Discard))
	archive, states := must(npz.ReadFile(c.Out)), must(npz.ReadFile(c.States))
	rows := must(must(archive.Shaped("next_obs", 300, -1)).Float32s())
	width := len(rows) / 300
	obs := must(must(states.Shaped("obs", 300, width)).Float32s())
	if !slices.Equal(obs, rows) {
		t.Error("the states are not those after the actions")
	}
	rewards := must(states.Shaped("reward_"+file.Robot.Task(), 300)).Float64s()
	for i, reward := range rewards {
		want := must(rover.Reward(file.Robot.Task(), obs[i*width:(i+1)*width]))
		if math.Abs(reward-want) > 1e-5 {
			t.Fatalf("state %d: reward %g, want %g", i, reward, want)
		}
	}
	c.Out += "2"
	err := Run(t.Context(), file, c, nil, io.Discard, io.Discard)
	errtest.Contains(t, err, "--states", "overwrites the states")
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestRun_LimitsTheActionsOfARealRobot(t *testing.T) {
	robot := narrow()
	s := realRobot(t, robot, 20)
	fatal.If(t, s.run(t.Context(), strings.NewReader("arm\n"), io.Discard, io.Discard))
	if !robot.Halted || robot.Arms != 1 || s.recorder.rows.Len() != 20 {
		t.Errorf("halted %t, armed %d times, %d rows", robot.Halted, robot.Arms, s.recorder.rows.Len())
	}
	last, moved := 4.0, false
	for n := range robot.Acts {
		a := float64(robot.Action(n)[0])
		if math.Abs(a-last) > 1+1e-5 || a < 4-0.25*2-1e-5 || a > 4+0.25*6+1e-5 {
			t.Errorf("action %d: from %g to %g", n, last, a)
		}
		moved = moved || a != last
		last = a
	}
	if !moved {
		t.Error("the actions do not explore")
	}
	archive, err := npz.ReadFile(s.config.Out)
	fatal.If(t, err)
	actions, err := archive.Shaped("action", 20, 1)
	fatal.If(t, err)
	n := 0 // rows are a subsequence of the actions: missed ticks interrupt the recording
	for _, u := range actions.Float64s() {
		for n < robot.Acts && math.Abs(u-(float64(robot.Action(n)[0])-6)/4) > 1e-6 {
			n++
		}
	}
	if n == robot.Acts {
		t.Errorf("the rows %v are not the actions in [-1, 1]", actions.Float64s())
	}
}

func TestRun_HaltsAndKeepsTheRecordingAtEveryEnd(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		end    func(cancel func(), obs []float32) error // of the recording, from the 16th observation on
		want   string
	}{
		"interrupted":  {"arm\n", func(cancel func(), _ []float32) error { cancel(); return nil }, ""},
		"sensor fails": {"arm\n", func(func(), []float32) error { return errors.New("broken") }, "broken"},
		"out of range": {"arm\n", func(_ func(), obs []float32) error { obs[0] = 7; return nil }, "plausible range"},
		"not armed":    {"no\n", nil, "did not arm"},
		"no operator":  {"", nil, "did not arm"},
	} {
		t.Run(name, func(t *testing.T) {
			robot, recorded := narrow(), c.end != nil
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			robot.Observe = func(n int, obs []float32) error {
				if n < 15 {
					return nil
				}
				return c.end(cancel, obs)
			}
			s := realRobot(t, robot, 1000)
			err := s.run(ctx, strings.NewReader(c.answer), io.Discard, io.Discard)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("found %v, want %q", err, c.want)
			}
			if !robot.Halted || robot.Halts == 0 || (robot.Arms > 0) != recorded {
				t.Errorf("halted %t, %d times; armed %d times", robot.Halted, robot.Halts, robot.Arms)
			}
			if _, err := os.Stat(s.config.Out); (err == nil) != recorded {
				t.Errorf("the file: %v", err)
			}
		})
	}
}

func TestNewSession_RefusesRhythmsInRealTime(t *testing.T) {
	s := realRobot(t, narrow(), 10)
	s.config.Rhythms = 0.5
	if _, err := newSession(narrow(), s.file, s.config); err == nil || !strings.Contains(err.Error(), "--rhythms") {
		t.Errorf("found %v, want that --rhythms is refused", err)
	}
	for _, share := range []float64{-0.1, 1.1, math.NaN()} {
		s.config.Rhythms = share
		if err := s.config.validate(); err == nil || !strings.Contains(err.Error(), "--rhythms") {
			t.Errorf("%g: found %v", share, err)
		}
	}
}

func TestRun_RecordsRhythms(t *testing.T) {
	c := Config{Transitions: 200, Seed: 3, Amplitude: 1, Rhythms: 1, Out: filepath.Join(t.TempDir(), "out.npz")}
	fatal.If(t, Run(t.Context(), configs.Default(), c, nil, io.Discard, io.Discard))
	archive := must(npz.ReadFile(c.Out))
	actions, episodes := must(archive.Shaped("action", 200, 2)).Float64s(), must(archive.Shaped("episode", 200)).Float64s()
	for i := 1; i < 200; i++ {
		step := math.Abs(actions[2*i] - actions[2*i-2])
		if episodes[i] == episodes[i-1] && step > 2*math.Sin(math.Pi/5)+1e-6 { // the shortest period has 5 ticks
			t.Errorf("row %d: the action changes by %g", i, step)
		}
	}
}

// pressed is a robot with an emergency stop that is pressed.
type pressed struct{ *haltest.Robot }

func (pressed) StopPressed() bool { return true }

func TestRun_DoesNotArmWithThePressedEmergencyStop(t *testing.T) {
	robot := narrow()
	s := realRobot(t, pressed{robot}, 10)
	err := s.run(t.Context(), strings.NewReader("arm\n"), io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "emergency stop") || robot.Arms != 0 || !robot.Halted {
		t.Errorf("armed %d times: %v", robot.Arms, err)
	}
}

// cut is a robot whose Sense hangs until its second path is used.
type cut struct {
	*haltest.Robot
	beside chan struct{}
}

func (c cut) HaltBeside() { close(c.beside) }

func TestRun_HaltsBesideADriverThatHangs(t *testing.T) {
	robot := cut{narrow(), make(chan struct{})}
	robot.Observe = func(n int, _ []float32) error {
		if n == 10 {
			<-robot.beside
		}
		return nil
	}
	s := realRobot(t, robot, 1000)
	s.file.Loop.WatchdogMS = 100
	err := s.run(t.Context(), strings.NewReader("arm\n"), io.Discard, io.Discard)
	if errors.Is(err, errStuck) { // a busy computer: the thread may still be in the driver
		return
	}
	if !errors.Is(err, errLate) || !robot.Halted {
		t.Errorf("halted %t: %v", robot.Halted, err)
	}
}

func TestSession_TickAllocatesNothing(t *testing.T) {
	s := realRobot(t, haltest.New(haltest.Spec(3, 2)), 100)
	fatal.If(t, s.agent.Arm(0))
	beat := rtloop.Beat{Elapsed: 1}
	if n := testing.AllocsPerRun(50, func() {
		beat.Index++
		fatal.If(t, s.onBeat(beat))
	}); n != 0 {
		t.Errorf("%g allocations a tick", n)
	}
	if s.recorder.rows.Len() < 40 {
		t.Errorf("%d rows", s.recorder.rows.Len())
	}
}

func TestProgressLine_ShowsRateAndRemainingTime(t *testing.T) {
	if got, want := progressLine(300, 1500, 15e9), "300 of 1500 transitions, 20/s, 1:00 left"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
