package bridge

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/hal/haltest"
	"optibfm/hal/monotonic"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// served is a robot behind Serve. Its fields may be looked at after stop.
type served struct {
	sim     *haltest.Simulator
	robot   hal.Robot // nil: sim
	address string
	cancel  context.CancelFunc
	done    chan struct{}
	ends    chan error // of the connections
}

func serve(t testing.TB, obs, action int) *served {
	t.Helper()
	s := &served{
		sim:     haltest.NewSimulator(haltest.Spec(obs, action)),
		address: "unix:" + filepath.Join(t.TempDir(), "robot.sock"),
		done:    make(chan struct{}),
		ends:    make(chan error, 16),
	}
	s.sim.RewardOf = func(obs []float32) float64 { return float64(10 * obs[0]) }
	s.sim.Observe = func(n int, obs []float32) error {
		obs[0] = float32(n)
		return nil
	}
	return s
}

func (s *served) start(t testing.TB) *served {
	t.Helper()
	l, err := Listen(s.address)
	fatal.If(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go func() {
		defer close(s.done)
		var robot hal.Robot = s.sim
		if s.robot != nil {
			robot = s.robot
		}
		errtest.Nil(t, Serve(ctx, l, robot, func(err error) { s.ends <- err }))
	}()
	t.Cleanup(s.stop)
	return s
}

func (s *served) stop() {
	s.cancel()
	<-s.done
}

func dial(t testing.TB, config Config) *Robot {
	t.Helper()
	r, err := Dial(context.Background(), config)
	fatal.If(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func TestServe_LockstepTickIsOneRoundTrip(t *testing.T) {
	s := serve(t, 3, 2).start(t)
	r := dial(t, Config{Address: s.address})
	spec, served := r.Spec(), s.sim.Spec()
	if spec.Name != "fake" || len(spec.Obs) != 3 || spec.Action[1] != served.Action[1] || spec.Period != served.Period {
		t.Errorf("spec %+v", spec)
	}
	fatal.If(t, r.Reset(7))
	if _, ok := r.Reward(); ok {
		t.Error("there is a reward before the first Sense")
	}
	fatal.If(t, r.Arm())
	obs := make([]float32, 3)
	for i := range 10 {
		at, err := r.Sense(obs)
		fatal.If(t, err)
		reward, ok := r.Reward()
		if at != int64(i+1)*20e6 || obs[0] != float32(i) || !ok || reward != float64(10*i) {
			t.Fatalf("tick %d: at %d, obs %v, reward %v (%v)", i, at, obs, reward, ok)
		}
		fatal.If(t, r.Act([]float32{float32(i) / 10, -1}))
		if after, _ := r.Reward(); after != reward {
			t.Fatalf("tick %d: Act changed the reward of the last Sense", i)
		}
	}
	fatal.If(t, r.Close())
	fatal.If(t, <-s.ends)
	s.stop()
	if s.sim.Seed != 7 || s.sim.Acts != 10 || s.sim.Senses != 11 || s.sim.Action(9)[0] != 0.9 || !s.sim.Halted {
		t.Errorf("the robot saw %+v", s.sim.Robot)
	}
}

func TestServe_LockstepSensesAgain(t *testing.T) {
	s := serve(t, 1, 1).start(t)
	r := dial(t, Config{Address: s.address})
	obs := make([]float32, 1)
	for i := range 3 {
		fatal.If(t, errtest.Of(r.Sense(obs)))
		if obs[0] != float32(i) {
			t.Errorf("sense %d: %v", i, obs)
		}
	}
}

func TestServe_HaltLatchesOnBothSides(t *testing.T) {
	s := serve(t, 1, 1).start(t)
	r := dial(t, Config{Address: s.address})
	errtest.Is(t, r.Act([]float32{0}), hal.ErrHalted, "a new robot acts")
	fatal.If(t, r.Arm())
	fatal.If(t, r.Act([]float32{1}))
	fatal.If(t, r.Halt())
	fatal.If(t, r.Halt())
	errtest.Is(t, r.Act([]float32{0}), hal.ErrHalted, "a halted robot acts")
	fatal.If(t, r.Arm())
	fatal.If(t, r.Act([]float32{1}))
	errtest.Contains(t, r.Act([]float32{2}), `"a0" is not within its limits`)
	errtest.Contains(t, r.Act([]float32{0, 0}), "wrong length")
	fatal.If(t, r.Close())
	errtest.Contains(t, r.Act([]float32{0}), "it was closed")
	fatal.If(t, <-s.ends)
	s.stop()
	if s.sim.Halts != 4 || s.sim.Acts != 2 {
		t.Errorf("%d halts, %d acts", s.sim.Halts, s.sim.Acts)
	}
}

// remoteStop is a robot whose stop input another goroutine presses.
type remoteStop struct {
	*haltest.Stoppable
	pressed atomic.Bool
}

func (r *remoteStop) Sense(obs []float32) (int64, error) {
	r.Pressed = r.pressed.Load()
	return r.Stoppable.Sense(obs)
}

// TestServe_StopInputHaltsTheRobot has an emergency stop at the robot, which the protocol does not
// carry.
func TestServe_StopInputHaltsTheRobot(t *testing.T) {
	for _, mode := range []string{Lockstep, Free} {
		s := serve(t, 1, 1)
		robot := &remoteStop{Stoppable: haltest.NewStoppable(haltest.Spec(1, 1))}
		robot.Observe = func(int, []float32) error {
			robot.Now = monotonic.Now()
			return nil
		}
		s.robot = robot
		s.start(t)
		r := dial(t, Config{Address: s.address, Mode: mode, TimeoutMs: 1000, DeadmanMs: 60_000, StaleMs: 60_000})
		obs := make([]float32, 1)
		sense := func(pressed bool) {
			t.Helper()
			robot.pressed.Store(pressed)
			fatal.If(t, errtest.Of(r.Sense(obs)))
			if mode == Lockstep { // a second Sense without a step asks the server
				fatal.If(t, errtest.Of(r.Sense(obs)))
			}
		}
		sense(false)
		fatal.If(t, r.Arm())
		fatal.If(t, r.Act([]float32{1}))
		sense(true)
		var err error
		for range 3 { // in free mode the next Act returns the refusal
			err = errors.Join(err, r.Act([]float32{1}))
			sense(true)
		}
		errtest.Contains(t, err, "the stop input of the robot is pressed")
		fatal.If(t, r.Halt())
		errtest.Contains(t, r.Arm(), "the stop input of the robot is pressed")
		fatal.If(t, r.Close())
		s.stop()
		if robot.Acts != 1 || !robot.Halted {
			t.Errorf("%s: %d acts, halted %v", mode, robot.Acts, robot.Halted)
		}
	}
}

func TestServe_RobotErrorsKeepConnection(t *testing.T) {
	s := serve(t, 2, 1)
	s.sim.OnReset = func(seed uint64) error {
		if seed == 13 {
			return errors.New("13 is unlucky\x1b[2J")
		}
		return nil
	}
	s.sim.Observe = func(n int, obs []float32) error {
		switch n {
		case 1:
			obs[1] /= obs[1] // NaN
		case 2:
			s.sim.Halted = true // without a request
		}
		return nil
	}
	s.start(t)
	r := dial(t, Config{Address: s.address})
	errtest.Contains(t, r.Reset(13), "reset: server error: 13 is unlucky [2J")
	fatal.If(t, r.Reset(1))
	fatal.If(t, r.Arm())
	obs := make([]float32, 2)
	fatal.If(t, r.Act([]float32{0}))
	_, err := r.Sense(obs)
	errtest.Contains(t, err, `observation "o1" is not finite (NaN)`)
	fatal.If(t, errtest.Of(r.Sense(obs)))
	errtest.Is(t, r.Act([]float32{0}), hal.ErrHalted, "a halted robot acts")
	fatal.If(t, r.Arm())
	fatal.If(t, r.Act([]float32{0}))
}

func TestServe_RefusesResetWithoutSimulator(t *testing.T) {
	robot := haltest.New(haltest.Spec(1, 1))
	address := "unix:" + filepath.Join(t.TempDir(), "robot.sock")
	l, err := Listen(address)
	fatal.If(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = Serve(ctx, l, robot, nil) }()
	r := dial(t, Config{Address: address})
	errtest.Contains(t, r.Reset(1), "not a simulator")
	_, err = r.Sense(make([]float32, 1))
	fatal.If(t, err)
	if _, ok := r.Reward(); ok || r.CanReset() {
		t.Error("a robot has rewards or resets")
	}
	brief, cancelBrief := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancelBrief()
	_, err = Dial(brief, Config{Address: address}) // the first client is still there
	errtest.Contains(t, err, "waiting for the welcome")
}

// starter starts a server at the first write: the notice of a Dial without one.
type starter struct {
	once  sync.Once
	start func()
	text  strings.Builder
}

func (s *starter) Write(p []byte) (int, error) {
	s.once.Do(s.start)
	return s.text.Write(p)
}

func TestDial_WaitsForAServerThatComesLate(t *testing.T) {
	s := serve(t, 1, 1)
	late := &starter{start: func() { s.start(t) }}
	r := dial(t, Config{Address: s.address, Output: late})
	fatal.If(t, r.Arm())
	notice := late.text.String()
	for _, want := range []string{s.address, "start_timeout_ms"} {
		if !strings.Contains(notice, want) {
			t.Errorf("notice %q, want %q", notice, want)
		}
	}
}

func TestDial_ResolvesMulticastNames(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Dial(ctx, Config{Address: "tcp:robot.local:5555"})
	errtest.Contains(t, err, "robot.local: context canceled; use the address")
}

func TestServe_HaltsWhenClientVanishes(t *testing.T) {
	s := serve(t, 1, 1).start(t)
	r := dial(t, Config{Address: s.address})
	fatal.If(t, r.Arm())
	fatal.If(t, r.Act([]float32{1}))
	r.sock.shut() // no halt, no bye
	errtest.Contains(t, <-s.ends, "the client left without bye")
	s.stop()
	if s.sim.Halts != 1 || s.sim.Output[0] != 0 {
		t.Errorf("%d halts, output %v", s.sim.Halts, s.sim.Output)
	}
}

func TestServe_DeadmanHaltsRobot(t *testing.T) {
	s := serve(t, 1, 1).start(t)
	r := dial(t, Config{Address: s.address, Mode: Free, DeadmanMs: 30})
	if got := r.Deadman(); got != 30*time.Millisecond {
		t.Errorf("the client reports %v", got)
	}
	fatal.If(t, r.Arm())
	errtest.Contains(t, <-s.ends, "silent for longer than its deadman time (30ms)")
	errtest.Contains(t, r.Arm(), "the server")
	s.stop()
	if !s.sim.Halted {
		t.Error("the robot is not halted")
	}
}

func TestServe_DeadmanWaitsForFirstRequest(t *testing.T) {
	s := serve(t, 1, 1).start(t)
	r := dial(t, Config{Address: s.address, Mode: Free, DeadmanMs: 20})
	time.Sleep(100 * time.Millisecond) // it loads its model
	fatal.If(t, r.Arm())
	errtest.Contains(t, <-s.ends, "silent for longer than its deadman time (20ms)")
	s.stop()
}

func TestServe_FreeModeSensesNewestSample(t *testing.T) {
	s := serve(t, 1, 1)
	age := int64(2e9)
	s.sim.Observe = func(n int, obs []float32) error {
		obs[0] = float32(n)
		s.sim.Now = monotonic.Now()
		if n == 2 {
			s.sim.Now -= age
		}
		return nil
	}
	s.start(t)
	r := dial(t, Config{Address: s.address, Mode: Free, TimeoutMs: 1000, StaleMs: 1000, DeadmanMs: 10000})
	obs := make([]float32, 1)
	for i := range 2 {
		before := monotonic.Now()
		at, err := r.Sense(obs)
		fatal.If(t, err)
		if now := monotonic.Now(); obs[0] != float32(i) || at < before-1e9 || at > now {
			t.Errorf("obs %v at %d, asked between %d and %d", obs, at, before, now)
		}
	}
	errtest.Is(t, errtest.Of(r.Sense(obs)), ErrStale, "a sample of two seconds ago")
	fatal.If(t, errtest.Of(r.Sense(obs)))
}

func TestServe_FreeModeReportsRefusedAct(t *testing.T) {
	s := serve(t, 1, 1)
	s.sim.ActErr = errors.New("stuck")
	s.sim.Observe = func(int, []float32) error { s.sim.Now = monotonic.Now(); return nil }
	s.start(t)
	r := dial(t, Config{Address: s.address, Mode: Free, TimeoutMs: 1000, StaleMs: 1000, DeadmanMs: 10000})
	fatal.If(t, r.Arm())
	fatal.If(t, r.Act([]float32{0}))
	fatal.If(t, errtest.Of(r.Sense(make([]float32, 1))))
	errtest.Contains(t, r.Act([]float32{0}), "act: server error: stuck")
}

func TestServe_TickAllocatesNothing(t *testing.T) {
	for _, mode := range []string{Lockstep, Free} {
		t.Run(mode, func(t *testing.T) {
			s := serve(t, 17, 6)
			s.sim.Observe = func(int, []float32) error { s.sim.Now = monotonic.Now(); return nil }
			s.start(t)
			r := dial(t, Config{Address: s.address, Mode: mode, TimeoutMs: 1000, StaleMs: 1000, DeadmanMs: 10000})
			fatal.If(t, r.Arm())
			obs, action := make([]float32, 17), make([]float32, 6)
			// The server runs in this process: it allocates nothing either.
			n := testing.AllocsPerRun(200, func() {
				fatal.If(t, errtest.Of(r.Sense(obs)))
				fatal.If(t, r.Act(action))
			})
			if n != 0 {
				t.Errorf("%v allocations a tick", n)
			}
		})
	}
}

func TestServe_RefusesBadProtocol(t *testing.T) {
	hi := hello{mode: lockstep}.encode()
	nan := []byte{0, 0, 0xc0, 0x7f}
	with := func(payload []byte, i int, v byte) []byte {
		b := append([]byte(nil), payload...)
		b[i] = v
		return b
	}
	cases := []struct {
		name string
		sent []byte
		want string
	}{
		{"another protocol", []byte("GET / HTTP/1.1\r\n"), "kind"},
		{"no hello", frame(kindSense, 0, nil), "it came before hello"},
		{"magic", frame(kindHello, 0, with(hi, 0, 'X')), `wrong magic ("XBFM"`},
		{"version", frame(kindHello, 0, with(hi, 4, 2)), "wrong version (2, expected 1)"},
		{"mode", frame(kindHello, 0, with(hi, 6, 3)), "unknown mode (3)"},
		{"reserved byte", frame(kindHello, 0, with(hi, 7, 1)), "reserved byte is not zero"},
		{"short hello", frame(kindHello, 0, hi[:5]), "it ends within"},
		{"long hello", frame(kindHello, 0, append(hi[:len(hi):len(hi)], 0)), "1 bytes too many"},
		{"huge hello", header{kind: kindHello, length: 1 << 31}.bytes(),
			"too long (2147483648 bytes, at most 4096 here)"},
		{"a task", frame(kindHello, 0, hello{mode: free, task: "x"}.encode()), `unknown task "x"`},
		{"unknown kind", append(frame(kindHello, 0, hi), header{kind: 99}.bytes()...), "unknown kind (99)"},
		{"flags", append(frame(kindHello, 0, hi), header{kind: kindSense, flags: 2}.bytes()...), "reserved bytes"},
		{"sequence", append(frame(kindHello, 0, hi), frame(kindSense, 2, nil)...),
			"wrong sequence number (2, expected 1)"},
		{"no request", append(frame(kindHello, 0, hi), frame(kindState, 1, nil)...), "not a request"},
		{"length of an act", append(frame(kindHello, 0, hi), frame(kindAct, 1, nil)...),
			"wrong length (0 bytes, expected 4)"},
		{"death within a frame", append(frame(kindHello, 0, hi), frame(kindAct, 1, nan)[:13]...), "left"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			robot := haltest.New(haltest.Spec(1, 1))
			fatal.If(t, robot.Arm())
			errtest.Contains(t, serveOne(context.Background(), newScript(c.sent), robot), c.want)
			if !robot.Halted || robot.Acts != 0 {
				t.Error("the robot is not halted, or moved")
			}
		})
	}
}

func TestServe_RefusesNaN(t *testing.T) {
	robot := haltest.New(haltest.Spec(1, 1))
	conn := newScript(append(append(append(frame(kindHello, 0, hello{mode: lockstep}.encode()),
		frame(kindArm, 1, nil)...), frame(kindAct, 2, []byte{0, 0, 0xc0, 0x7f})...), frame(kindBye, 3, nil)...))
	fatal.If(t, serveOne(context.Background(), conn, robot))
	answer := conn.written.String()
	if robot.Acts != 0 || robot.Refused != 1 || !strings.Contains(answer, "is not within its limits (NaN") {
		t.Errorf("%d acts, %d refused, answered %q", robot.Acts, robot.Refused, conn.written.String())
	}
}

func TestListen_ReplacesOnlyAbandonedSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "robot.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	fatal.If(t, err)
	errtest.Contains(t, errtest.Of(Listen("unix:"+path)), "choose another address")
	l.SetUnlinkOnClose(false)
	fatal.If(t, l.Close())
	l2, err := Listen("unix:" + path)
	fatal.If(t, err)
	fatal.If(t, l2.Close())
}

func TestServe_TCP(t *testing.T) {
	s := serve(t, 1, 1)
	l, err := Listen("tcp:127.0.0.1:0")
	fatal.If(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = Serve(ctx, l, s.sim, nil) }()
	r := dial(t, Config{Address: "tcp:" + l.Addr().String()})
	fatal.If(t, errtest.Of(r.Sense(make([]float32, 1))))
}

func BenchmarkTick(b *testing.B) {
	for _, mode := range []string{Lockstep, Free} {
		b.Run(mode, func(b *testing.B) {
			s := serve(b, 17, 6)
			s.sim.Observe = func(int, []float32) error { s.sim.Now = monotonic.Now(); return nil }
			s.start(b)
			r := dial(b, Config{Address: s.address, Mode: mode, TimeoutMs: 1000, StaleMs: 1000, DeadmanMs: 10000})
			fatal.If(b, r.Arm())
			obs, action := make([]float32, 17), make([]float32, 6)
			b.ReportAllocs()
			for b.Loop() {
				fatal.If(b, errtest.Of(r.Sense(obs)))
				fatal.If(b, r.Act(action))
			}
		})
	}
}

func TestRobot_TimeRisesAcrossEpisodes(t *testing.T) {
	s := serve(t, 1, 1)
	s.sim.OnReset = func(uint64) error { s.sim.Now = 0; return nil } // as simulators do
	s.start(t)
	robot := dial(t, Config{Address: s.address})
	obs, last := make([]float32, 1), int64(-1)
	fatal.If(t, robot.Arm())
	for episode := range 3 {
		fatal.If(t, robot.Reset(uint64(episode)))
		for range 3 {
			at, err := robot.Sense(obs)
			fatal.If(t, err)
			if at <= last {
				t.Fatalf("episode %d: time went from %d to %d", episode, last, at)
			}
			last = at
			fatal.If(t, robot.Act([]float32{0}))
		}
	}
}
