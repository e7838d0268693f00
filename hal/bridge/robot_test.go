package bridge

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/hal/haltest"
	"optibfm/hal/monotonic"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// against starts a server that answers every request with the next of the given
// bytes of any value, then closes; a patient one keeps the connection.
func against(t *testing.T, patient bool, answers ...[]byte) string {
	t.Helper()
	address := "unix:" + filepath.Join(t.TempDir(), "robot.sock")
	l, err := Listen(address)
	fatal.If(t, err)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if !recite(conn, answers) || !patient {
			return
		}
		<-stop
	}()
	t.Cleanup(func() {
		close(stop)
		_ = l.Close()
		<-done
	})
	return address
}

// recite reports whether it reached the end.
func recite(conn net.Conn, answers [][]byte) bool {
	head := make([]byte, headerSize)
	for _, answer := range answers {
		if _, err := io.ReadFull(conn, head); err != nil {
			return false
		}
		h, err := decodeHeader(head, maxHello)
		if err != nil {
			return false
		}
		if _, err := io.CopyN(io.Discard, conn, int64(h.length)); err != nil {
			return false
		}
		if _, err := conn.Write(answer); err != nil {
			return false
		}
	}
	return true
}

func aWelcome(m mode) []byte {
	spec := haltest.Spec(2, 1)
	return welcome{
		mode: m, capabilities: canReset | canReward, episodeSteps: 5,
		task: "walk", tasks: []string{"walk"}, spec: spec,
	}.encode()
}

func aState(obs ...float32) []byte {
	s := sample{at: 1, reward: 2, hasReward: true, obs: obs}
	return s.append(nil)
}

func TestParseWelcome_RefusesInvalid(t *testing.T) {
	good := aWelcome(lockstep)
	with := func(i int, v byte) []byte {
		b := bytes.Clone(good)
		b[i] = v
		return frame(kindWelcome, 0, b)
	}
	cases := []struct {
		name   string
		answer []byte
		want   string
	}{
		{"another protocol", []byte("HTTP/1.1 400 Bad Request"), "unknown kind"},
		{"magic", with(1, 'X'), `wrong magic ("OXFM"`},
		{"version", with(4, 3), "wrong version (3, expected 1 to 2); update the older side"},
		{"version 0", with(4, 0), "wrong version (0, expected 1 to 2)"},
		{"version 2 without measurements", with(4, 2), "it ends within a 16-bit number"},
		{"mode", with(6, 9), "unknown mode (9)"},
		{"another mode", with(6, 2), "another mode than hello's (2, expected 1)"},
		{"capabilities", with(7, 0x80), "unknown capabilities"},
		{"bad spec", with(12, 0), ""}, // the period's low byte: still a period
		{"sequence", frame(kindWelcome, 1, good), "wrong sequence number (1, expected 0)"},
		{"kind", frame(kindOK, 0, nil), "not an answer to hello"},
		{"too long", header{kind: kindWelcome, length: maxWelcome + 1}.bytes(), "too long"},
		{"trailing bytes", frame(kindWelcome, 0, append(bytes.Clone(good), 0)), "1 bytes too many"},
		{"refusal", frame(kindError, 0, encodeError(kindHello, CodeUnsupported, "no such task")),
			"hello: server error: no such task"},
		{"empty error", frame(kindError, 0, nil), "error: the payload has a wrong length (0 bytes"},
		{"unknown error", frame(kindError, 0, []byte{77, 1}), "unknown code"},
		{"silence", nil, "the server closed the connection"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, err := Dial(context.Background(), Config{Address: against(t, false, c.answer)})
			if c.want == "" {
				fatal.If(t, err)
				_ = r.Close()
				return
			}
			errtest.Contains(t, err, c.want)
		})
	}
	bad := welcome{mode: lockstep, spec: haltest.Spec(2, 1)}
	bad.spec.Action[0].Max = -1
	_, err := Dial(context.Background(), Config{Address: against(t, false, frame(kindWelcome, 0, bad.encode()))})
	errtest.Contains(t, err, "limits are not finite with min < max")
}

func TestParseWelcome_RefusesTruncated(t *testing.T) {
	good := aWelcome(free)
	m, err := decodeWelcome(good)
	if err != nil || m.spec.Obs[1].Name != "o1" || m.tasks[0] != "walk" || m.episodeSteps != 5 {
		t.Fatalf("%+v: %v", m, err)
	}
	var broken *ProtocolError
	for n := range good {
		if _, err := decodeWelcome(good[:n]); !errors.As(err, &broken) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	hi := hello{mode: free, deadman: time.Second, task: "walk"}
	if m, err := decodeHello(hi.encode()); err != nil || m != hi {
		t.Fatalf("%+v: %v", m, err)
	}
	for n := range hi.encode() {
		if _, err := decodeHello(hi.encode()[:n]); !errors.As(err, &broken) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}

func TestRobot_LostAfterProtocolError(t *testing.T) {
	old := aState(1, 2)
	old[15] = 0x80 // a negative age
	cases := []struct {
		name   string
		answer []byte
		want   string
	}{
		{"length", frame(kindState, 1, aState(1)), "wrong length (28 bytes, expected 32)"},
		{"too long", header{kind: kindState, length: 1 << 20}.bytes(), "too long (1048576 bytes, at most 1026 here)"},
		{"kind", frame(kindOK, 1, nil), "not an answer to sense"},
		{"unknown kind", frame(77, 1, nil), "unknown kind (77)"},
		{"sequence", frame(kindState, 2, aState(1, 2)), "wrong sequence number (2, expected 1)"},
		{"age", frame(kindState, 1, old), "age is not between 0 and an hour"},
		{"protocol error", frame(kindError, 1, encodeError(kindSense, CodeProtocol, "what?")),
			"sense: server error: what?"},
		{"cut in the header", frame(kindState, 1, nil)[:5], "within a frame (after 5 bytes of it)"},
		{"cut in the payload", frame(kindState, 1, aState(1, 2))[:20], "within a frame (after 20 bytes of it)"},
		{"death", nil, "the server closed the connection"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := dial(t, Config{Address: against(t, false, frame(kindWelcome, 0, aWelcome(lockstep)), c.answer)})
			obs := make([]float32, 2)
			_, err := r.Sense(obs)
			errtest.Contains(t, err, c.want)
			calls := map[string]error{
				"sense": err, "act": r.Act([]float32{0}), "arm": r.Arm(), "reset": r.Reset(1),
				"halt": r.Halt(), "halt again": r.Halt(),
			}
			for name, err := range calls {
				errtest.Is(t, err, ErrLost, name)
			}
			fatal.If(t, r.Close())
		})
	}
}

func TestRobot_LockstepTimesOut(t *testing.T) {
	r := dial(t, Config{Address: against(t, true, frame(kindWelcome, 0, aWelcome(lockstep))), TimeoutMs: 5})
	_, err := r.Sense(make([]float32, 2))
	errtest.Contains(t, err, "sense: no answer within 5ms")
	errtest.Is(t, err, ErrLost, "not ErrLost")
}

func TestRobot_HaltIgnoresSilentServer(t *testing.T) {
	r := dial(t, Config{Address: against(t, true, frame(kindWelcome, 0, aWelcome(lockstep)))})
	errtest.Contains(t, r.Halt(), "halt: no answer within 100ms")
}

func TestRobot_FreeModeReusesSampleUntilStale(t *testing.T) {
	late := bytes.Join([][]byte{
		frame(kindState, 2, aState(2, 0)), frame(kindState, 3, aState(3, 0)), frame(kindState, 4, aState(4, 0)),
	}, nil)
	r := dial(t, Config{
		Address: against(t, true,
			frame(kindWelcome, 0, aWelcome(free)), frame(kindState, 1, aState(1, 0)), nil, nil, late),
		Mode: Free,
	})
	obs := make([]float32, 2)
	r.timeout, r.stale = time.Minute, time.Minute
	first, err := r.Sense(obs)
	fatal.If(t, err)

	r.timeout = time.Millisecond
	again, err := r.Sense(obs)
	fatal.If(t, err)
	if again != first || obs[0] != 1 {
		t.Errorf("sample %v of %d, want the previous one of %d", obs, again, first)
	}
	r.stale = time.Nanosecond
	if _, err := r.Sense(obs); err != ErrStale {
		t.Errorf("%v, want ErrStale", err)
	}
	r.timeout, r.stale = time.Minute, time.Minute
	fatal.If(t, errtest.Of(r.Sense(obs)))
	if obs[0] != 4 {
		t.Errorf("a late answer was taken for the current one: %v", obs)
	}
}

func TestRobot_TakesTheSamplesOfLateAnswers(t *testing.T) {
	r := dial(t, Config{
		Address: against(t, true, frame(kindWelcome, 0, aWelcome(free)),
			frame(kindState, 1, aState(1, 0)), nil, frame(kindState, 2, aState(2, 0))),
		Mode: Free,
	})
	obs := make([]float32, 2)
	r.timeout, r.stale = time.Minute, time.Minute
	first, err := r.Sense(obs)
	fatal.If(t, err)

	r.timeout = 50 * time.Millisecond
	_, err = r.Sense(obs)
	fatal.If(t, err)
	asked := monotonic.Now() // the server answers request 2 after this
	var at int64
	for range 40 {
		if at, err = r.Sense(obs); err != nil || obs[0] == 2 {
			break
		}
	}
	if err != nil || obs[0] != 2 || at <= first || at > asked {
		t.Errorf("sample %v of %d, %v; want the second one, of a time from %d to %d", obs, at, err, first, asked)
	}
}

func TestDial_SimulatorIsPatient(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name          string
		can           capability
		wait, timeout time.Duration
		stale, halt   time.Duration
	}{
		{"simulator", canReset, time.Minute, 5 * ms, time.Minute, longestHalt},
		{"simulator with a short wait", canReset, 200 * ms, 5 * ms, 200 * ms, 200 * ms},
		{"simulator without a wait", canReset, 0, 5 * ms, 30 * ms, haltTimeout},
		{"physical robot", canReward, time.Minute, 5 * ms, 30 * ms, haltTimeout},
		{"slow physical robot", canReward, time.Minute, time.Second, 30 * ms, time.Second},
	} {
		m := welcome{mode: free, capabilities: c.can, spec: haltest.Spec(2, 1)}
		address := against(t, true, frame(kindWelcome, 0, m.encode()))
		r := dial(t, Config{Address: address, Mode: Free, TimeoutMs: float64(c.timeout / ms), StaleMs: 30,
			SimulatorWait: c.wait})
		if b := r.Bounds(); r.stale != c.stale || b.Halt != c.halt || b.Arm != c.halt {
			t.Errorf("%s: stale after %v, bounds %+v", c.name, r.stale, b)
		}
		r.halting = 0 // this server does not answer halt
	}
}

func TestRobot_ActionsThatASimulatorDoesNotReadAreLost(t *testing.T) {
	fill := func(wait time.Duration, most int) (n int, err error) {
		address := against(t, true, frame(kindWelcome, 0, aWelcome(free)), frame(kindOK, 1, nil))
		r := dial(t, Config{Address: address, Mode: Free, TimeoutMs: 1, SimulatorWait: wait})
		r.timeout = time.Minute
		fatal.If(t, r.Arm())
		for r.timeout = time.Millisecond; err == nil && n < most; n++ {
			err = r.Act([]float32{0})
		}
		return n, err
	}
	full, err := fill(0, maxUnanswered)
	if err != errDeadline {
		t.Errorf("another robot: %v after %d actions, want %v", err, full, errDeadline)
	}
	if n, err := fill(200*time.Millisecond, full+100); err != nil {
		t.Errorf("a simulator: %v after %d actions, of which the socket takes %d", err, n, full)
	}
}

func TestRobot_FirstSenseOfASimulatorWaits(t *testing.T) {
	address := against(t, true, frame(kindWelcome, 0, aWelcome(free)))
	r := dial(t, Config{Address: address, Mode: Free, TimeoutMs: 1, SimulatorWait: 300 * time.Millisecond})
	begun, obs := time.Now(), make([]float32, 2)
	if _, err := r.Sense(obs); err != ErrStale || time.Since(begun) < 300*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
}

func TestConfig_RefusesInvalid(t *testing.T) {
	cases := []struct {
		config Config
		want   string
	}{
		{Config{}, "address and command are empty"},
		{Config{Address: "/tmp/x"}, `invalid ("/tmp/x")`},
		{Config{Address: "udp:x:1"}, "invalid"},
		{Config{Address: "unix:"}, "invalid"},
		{Config{Address: "unix:/x", Mode: "fast"}, `mode is unknown ("fast")`},
		{Config{Address: "unix:/x", TimeoutMs: -1}, "timeout_ms is out of range (-1)"},
		{Config{Address: "unix:/x", StaleMs: 1e9}, "stale_ms"},
		{Config{Command: []string{""}}, "the program is empty"},
	}
	for _, c := range cases {
		errtest.Contains(t, errtest.Of(Dial(context.Background(), c.config)), c.want)
	}
	_, err := Dial(context.Background(), Config{Address: "unix:/nonexistent", StartTimeoutMs: 50, Output: io.Discard})
	errtest.Contains(t, err, "start the server first")
}

func TestRemoteError_IsErrHalted(t *testing.T) {
	errtest.Is(t, decodeError(encodeError(kindAct, CodeHalted, "halted")), hal.ErrHalted)
	if errors.Is(decodeError(encodeError(kindAct, CodeRobot, "stuck")), hal.ErrHalted) {
		t.Error("every error is ErrHalted")
	}
}

func TestClient_RefusesConnectionWithoutDescriptor(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	errtest.Contains(t, errtest.Of(newSocket(a)), "use a Unix or TCP socket")
	errtest.Is(t, errtest.Of(a.Write([]byte{1})), io.ErrClosedPipe, "the connection was not closed")
}

func TestRobot_CallTimeouts(t *testing.T) {
	const ms = time.Millisecond
	for timeoutMs, want := range map[float64]hal.Bounds{
		5:   {Sense: 5 * ms, Act: 5 * ms, Arm: 100 * ms, Halt: 100 * ms},
		300: {Sense: 300 * ms, Act: 300 * ms, Arm: 300 * ms, Halt: 300 * ms},
	} {
		address := against(t, true, frame(kindWelcome, 0, aWelcome(free)))
		r := dial(t, Config{Address: address, Mode: Free, TimeoutMs: timeoutMs})
		if got := r.Bounds(); got != want {
			t.Errorf("timeout_ms %v: %+v, want %+v", timeoutMs, got, want)
		}
	}
	address := against(t, true, frame(kindWelcome, 0, aWelcome(lockstep)))
	if got := dial(t, Config{Address: address}).Bounds(); got != (hal.Bounds{}) {
		t.Errorf("in lockstep: %+v", got)
	}
}

func TestRobot_NumbersRequestsWithoutGaps(t *testing.T) {
	r := dial(t, Config{Address: against(t, true, frame(kindWelcome, 0, aWelcome(free))), Mode: Free, TimeoutMs: 1})
	obs := make([]float32, 2)
	for range maxUnanswered {
		last := r.seq
		if _, err := r.Sense(obs); err != ErrStale {
			t.Fatal(err)
		}
		if r.seq == last { // the server reads nothing: its buffer is full
			return
		}
	}
	t.Error("request numbers are not unique")
}

func TestRobot_LostWithTooManyOpenRequests(t *testing.T) {
	r := dial(t, Config{Address: against(t, true, frame(kindWelcome, 0, aWelcome(free))), Mode: Free, TimeoutMs: 1})
	r.seq += maxUnanswered
	_, err := r.Sense(make([]float32, 2))
	errtest.Contains(t, err, "no answer to the last 4096 requests")
	errtest.Is(t, err, ErrLost, "not ErrLost")
}
