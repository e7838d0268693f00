package unitree_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"optibfm/hal/monotonic"
	"optibfm/hal/unitree"
	"optibfm/hal/unitree/dds"
	"optibfm/hal/unitree/idl"
	"optibfm/hal/unitree/simulator"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/testturns"
	"optibfm/rtloop"
)

const period = 20 * time.Millisecond

// program is the built optibfm-unitree.
var program string

// TestMain builds optibfm-unitree. In a child process it is a control process or holds
// a mark.
func TestMain(m *testing.M) {
	unitree.WaitForSlowWriters()
	if config := os.Getenv("OPTIBFM_TEST_CONTROL"); config != "" {
		if err := control(config); err != nil {
			fmt.Fprintln(os.Stderr, "control:", err)
			os.Exit(1)
		}
		return
	}
	if role := os.Getenv("OPTIBFM_TEST_MARK"); role != "" {
		if err := holdMark(role); err != nil {
			fmt.Fprintln(os.Stderr, "mark:", err)
			os.Exit(1)
		}
		return
	}
	dir, err := os.MkdirTemp("", "unitree")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, unitree.Program)
	if other := os.Getenv("OPTIBFM_TEST_WRITER"); other != "" { // such as one for arm64 under qemu
		program = other
	} else if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, "../../cmd/optibfm-unitree").
		CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %s", err, out)
		os.Exit(1)
	}
	run := testturns.Run
	if os.Getenv(inNamespace) != "" { // the parent has the turn
		run = (*testing.M).Run
	}
	code := run(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// emulated reports whether the writers run under an emulator, which is slow.
func emulated() bool { return os.Getenv("OPTIBFM_TEST_EMULATED") != "" }

// openTimeout limits the time to open a robot.
func openTimeout() time.Duration {
	if emulated() {
		return 3 * time.Minute
	}
	return 2 * time.Minute // more than writersStart
}

// library loads libddsc, or skips the test; with OPTIBFM_TEST_DDS=required it fails.
func library(t *testing.T) *dds.Library {
	t.Helper()
	l, err := dds.Open("")
	if err == nil {
		return l
	}
	if os.Getenv("OPTIBFM_TEST_DDS") == "required" {
		t.Fatal(err)
	}
	t.Skipf("%v", err)
	return nil
}

// domains counts the rigs of this process.
var domains atomic.Int64

// domain returns one that no other test uses, most likely: package dds has those below 80.
func domain() int { return 80 + (os.Getpid()+int(domains.Add(1)))%150 }

// newConfig returns a configuration for a simulator, which shares its processors with other tests:
// times are long.
func newConfig(model string) unitree.Config {
	c := unitree.DefaultConfig()
	c.Model, c.Interface, c.Domain, c.Writer = model, unitree.Loopback, domain(), program
	c.Kp, c.Kd, c.DampingKd, c.MaxRate = []float64{30}, []float64{1}, []float64{4}, []float64{6}
	c.DeadmanMS, c.StandbyMS, c.StandbyLateMS, c.StaleMS = 2000, 1000, 2000, 2000
	return c
}

// hangGuard limits waits that take milliseconds on a quiet computer.
const hangGuard = time.Minute

// until waits until a condition holds.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(hangGuard); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, hangGuard)
		}
	}
}

// rig is a simulated robot and an independent reader of its commands.
type rig struct {
	*simulator.Robot
	participant *dds.Participant
	take        func() (watched, bool) // the oldest command that was not taken
	end         func()
}

// newRig starts a simulated robot, on another participant than the driver's.
func newRig(t *testing.T, c unitree.Config) *rig {
	t.Helper()
	p, err := library(t).Join(uint32(c.Domain), unitree.Loopback)
	fatal.If(t, err)
	take := newReader(t, p, c.Model) // before that of the robot, so that it misses no command
	pose := make([]float64, len(unitree.Joints(c.Model)))
	for i, j := range unitree.Joints(c.Model) {
		pose[i] = min(max(0.1, j.Min+0.1), j.Max-0.1)
	}
	r, err := simulator.New(p, c.Model, &simulator.Springs{Pose: pose})
	fatal.If(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	end := sync.OnceFunc(func() {
		cancel()
		errtest.Nil(t, <-ended)
		p.Close()
	})
	t.Cleanup(end)
	return &rig{r, p, take, end}
}

func open(t *testing.T, c unitree.Config) *unitree.Robot {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), openTimeout())
	defer cancel()
	r, err := unitree.Open(ctx, c, period)
	fatal.If(t, err)
	t.Cleanup(func() { errtest.Nil(t, r.Close()) })
	return r
}

// watched is a command as an independent reader sees it.
type watched struct {
	at      int64
	damping bool
	first   float32 // goal of joint 0
}

// watcher reads every command. It is not the code that the simulated robot reads with.
type watcher struct {
	quit, done chan struct{}

	mu   sync.Mutex
	seen []watched
}

// watch reads until stop. It must end before the rig does.
func (g *rig) watch() *watcher {
	w := &watcher{quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for {
			select {
			case <-w.quit:
				return
			default:
			}
			c, ok := g.take()
			if !ok {
				time.Sleep(200 * time.Microsecond)
				continue
			}
			w.mu.Lock()
			w.seen = append(w.seen, c)
			w.mu.Unlock()
		}
	}()
	return w
}

// stop returns all commands.
func (w *watcher) stop() []watched {
	close(w.quit)
	<-w.done
	return w.seen
}

// newest returns the last command and the number of the last ones that damp, or do not, as it does.
func (w *watcher) newest() (last watched, alike int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.seen) == 0 {
		return last, 0
	}
	last = w.seen[len(w.seen)-1]
	for _, c := range slices.Backward(w.seen) {
		if c.damping != last.damping {
			break
		}
		alike++
	}
	return last, alike
}

// await waits until the newest n commands damp: an independent reader is a little later than the
// driver.
func (w *watcher) await(t *testing.T, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d commands that damp", n), func() bool {
		last, alike := w.newest()
		return last.damping && alike >= n
	})
}

// kept is the number of commands that the reader keeps until they are taken: 8 s of them.
const kept = 4096

func newReader(t *testing.T, p *dds.Participant, model string) func() (watched, bool) {
	if model == unitree.Go2 {
		r, err := dds.NewReader[idl.Go2Command](p, "rt/lowcmd", idl.Go2CommandType, kept)
		fatal.If(t, err)
		return func() (w watched, ok bool) {
			m, _, err := r.Take()
			if err != nil || m == nil {
				return w, false
			}
			j := &m.Motor[0]
			return watched{monotonic.Now(), j.Kp == 0 && j.Kd > 0, j.Q}, true
		}
	}
	r, err := dds.NewReader[idl.G1Command](p, "rt/lowcmd", idl.G1CommandType, kept)
	fatal.If(t, err)
	return func() (w watched, ok bool) {
		m, _, err := r.Take()
		if err != nil || m == nil {
			return w, false
		}
		j := &m.Motor[0]
		return watched{monotonic.Now(), j.Kp == 0 && j.Kd > 0, j.Q}, true
	}
}

// settle senses until a condition holds.
func settle(t *testing.T, r *unitree.Robot, what string, ok func(err error) bool) {
	t.Helper()
	obs := make([]float32, len(r.Spec().Obs))
	until(t, what, func() bool { return ok(errtest.Of(r.Sense(obs))) })
}

// arm waits until the robot can be armed, and arms it.
func arm(t *testing.T, r *unitree.Robot) []float32 {
	t.Helper()
	var err error
	for end := time.Now().Add(hangGuard); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		settle(t, r, "a state", func(err error) bool { return err == nil && !r.StopPressed() })
		if err = r.Arm(); err == nil {
			return present(t, r)
		}
	}
	t.Fatal(err)
	return nil
}

// present returns the action that holds the present pose.
func present(t *testing.T, r *unitree.Robot) []float32 {
	t.Helper()
	spec := r.Spec()
	obs, action := make([]float32, len(spec.Obs)), make([]float32, len(spec.Action))
	fatal.If(t, errtest.Of(r.Sense(obs)))
	for i, c := range spec.Action {
		action[i] = obs[i] * float32(c.Measured.Scale)
	}
	return action
}

// control is a control process: it arms the robot, moves a joint, and writes "armed".
func control(text string) error {
	var c unitree.Config
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout())
	defer cancel()
	r, err := unitree.Open(ctx, c, period)
	if err != nil {
		return err
	}
	loop := rtloop.DefaultConfig()
	loop.MaxMissed, loop.WatchdogMS = rtloop.NoLimit, 0
	thread, _, err := rtloop.Prepare(loop)
	if err != nil {
		return err
	}
	body := newBody(r)
	_, err = thread.Run(context.Background(), func(rtloop.Beat) error { return body.tick() })
	fmt.Fprintln(os.Stderr, "stopped:", err)
	return errors.Join(err, r.Halt(), wait())
}

// body runs the control thread of a control process.
type body struct {
	*unitree.Robot
	obs, action []float32
	ticks       int
	armed       bool
}

func newBody(r *unitree.Robot) *body {
	spec := r.Spec()
	return &body{Robot: r, obs: make([]float32, len(spec.Obs)), action: make([]float32, len(spec.Action))}
}

func (b *body) tick() error {
	b.ticks++
	if _, err := b.Sense(b.obs); err != nil {
		if b.armed {
			return err
		}
		return nil
	}
	if b.armed {
		b.action[0] += 0.0001
		return b.Act(b.action)
	}
	if err := b.Arm(); err != nil {
		if b.ticks > int(hangGuard/period) {
			return err
		}
		return nil
	}
	for i, c := range b.Spec().Action {
		b.action[i] = b.obs[i] * float32(c.Measured.Scale)
	}
	b.armed = true
	fmt.Println("armed")
	return nil
}

// wait keeps a stopped control process alive.
func wait() error { time.Sleep(10 * time.Second); return nil }
