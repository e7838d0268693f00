package cli

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/hal/bridge"
	"optibfm/hal/bridge/bridgetest"
	"optibfm/hal/haltest"
	"optibfm/hal/serial/serialtest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/tflite"
)

// startStep is a step of the start at which the program waits.
type startStep struct {
	name string
	// prepare returns the command and a channel that is closed when the program waits.
	prepare func(t *testing.T) (*exec.Cmd, <-chan struct{})
	want    string // in the error
}

var startSteps = []startStep{
	{"the bridge's hello is not answered", waitingForTheBridge(bridgetest.Hello, "no answer"),
		"waiting for the welcome"},
	{"the bridge's welcome comes byte by byte", waitingForTheBridge(bridgetest.Hello, "a byte every 60 ms"),
		"waiting for the welcome"},
	{"the bridge's server does not listen", waitingForTheServer, "waiting until the server listens"},
	{"a microcontroller does not answer", waitingForTheBoard, "for the answer to HELLO"},
	{"the host process is not ready", waitingForTheHost, "interrupted before the robot was armed"},
	{"lockstep: the bridge's hello is not answered", inLockstep(bridgetest.Hello), "waiting for the welcome"},
	{"lockstep: reset is not answered", inLockstep(bridgetest.Reset), "reset"},
	{"lockstep: act is not answered", inLockstep(bridgetest.Act), "act"},
	{"lockstep: halt is not answered", inLockstep(bridgetest.Halt), "halt: no answer within 100ms"},
	{"halt is not answered", waitingForTheBridge(bridgetest.Halt, "no answer"), "halt: no answer within 5s"},
}

func TestRun_ASignalEndsEveryStepOfItsStart(t *testing.T) {
	for _, step := range startSteps {
		t.Run(step.name, func(t *testing.T) {
			t.Parallel()
			cmd, waiting := step.prepare(t)
			output := startToFile(t, cmd)
			awaitStep(t, waiting, output)
			state := interrupt(t, cmd, output)
			if state.ExitCode() != 1 || !strings.Contains(output.String(), step.want) {
				t.Errorf("it ended with %v, want %q:\n%s", state, step.want, output)
			}
		})
	}
}

// startToFile starts a command whose output goes to a file.
func startToFile(t *testing.T, cmd *exec.Cmd) *syncBuffer {
	t.Helper()
	output := &syncBuffer{filepath.Join(t.TempDir(), "output")}
	file, err := os.Create(output.path)
	fatal.If(t, err)
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	fatal.If(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return output
}

func awaitStep(t *testing.T, waiting <-chan struct{}, output *syncBuffer) {
	t.Helper()
	select {
	case <-waiting:
	case <-time.After(rigtest.HangGuard):
		t.Fatalf("the program did not reach the step:\n%s", output)
	}
}

// interrupt sends two signals and waits for the end. The second signal must not prevent
// the halt.
func interrupt(t *testing.T, cmd *exec.Cmd, output *syncBuffer) *os.ProcessState {
	t.Helper()
	for range 2 {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		time.Sleep(20 * time.Millisecond)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(rigtest.ExitTimeout):
		_ = cmd.Process.Signal(syscall.SIGABRT) // prints its goroutines
		<-ended
		t.Fatalf("it did not end:\n%s", output)
	}
	return cmd.ProcessState
}

// waitingForTheBridge returns a run in real time with a server that commits a fault.
func waitingForTheBridge(at bridgetest.Kind, fault string) func(*testing.T) (*exec.Cmd, <-chan struct{}) {
	return func(t *testing.T) (*exec.Cmd, <-chan struct{}) {
		server := serveFaulty(t, true, at, fault)
		cmd := program(t, bridgeSettings(server, "free")...)
		if at == bridgetest.Halt { // the signal causes it
			return cmd, server.Acted()
		}
		return cmd, server.Committed()
	}
}

// serveFaulty serves a robot with a fault. When the test ends, the robot must be halted
// and must not have acted after the fault.
func serveFaulty(t *testing.T, free bool, at bridgetest.Kind, fault string) *bridgetest.Server {
	t.Helper()
	for _, f := range bridgetest.Faults(at, free) {
		if f.Name == fault {
			spec := haltest.Spec(6, 2)
			spec.Period = 20 * time.Millisecond
			server := bridgetest.Serve(t, bridgetest.Options{Spec: spec, Free: free, At: at, Fault: f})
			t.Cleanup(func() { rigtest.CheckHalted(t, server, 0) })
			return server
		}
	}
	t.Fatalf("no fault %q", fault)
	return nil
}

func bridgeSettings(server *bridgetest.Server, mode string) []string {
	return []string{
		"robot.driver=" + "bridge", "robot.bridge.address=" + server.Address, "robot.bridge.mode=" + mode,
		"robot.bridge.stale_ms=5000", "robot.bridge.timeout_ms=20000", "robot.bridge.deadman_ms=3000",
		"loop.period_ms=20", "loop.watchdog_ms=0", "operator.source=none", "run.duration_s=0", "run.episode_s=0",
		"run.simulator_wait_s=0", // the deadlines of a physical robot
	}
}

func inLockstep(at bridgetest.Kind) func(*testing.T) (*exec.Cmd, <-chan struct{}) {
	return func(t *testing.T) (*exec.Cmd, <-chan struct{}) {
		server := serveFaulty(t, false, at, "no answer")
		cmd := program(t, append(bridgeSettings(server, "lockstep"), "run.lockstep=true", "run.episode_s=100")...)
		if at == bridgetest.Halt {
			return cmd, server.Acted()
		}
		return cmd, server.Committed()
	}
}

// waitingForTheServer returns a run with a bridge server that does not listen.
func waitingForTheServer(t *testing.T) (*exec.Cmd, <-chan struct{}) {
	started := filepath.Join(t.TempDir(), "started")
	cmd := program(t, "robot.driver="+"bridge", "robot.bridge.mode=free", "operator.source=none",
		`robot.bridge.command=["sh", "-c", "echo >`+started+`; exec sleep 1000"]`)
	return cmd, exists(started)
}

// exists returns a channel that is closed when a file exists.
func exists(path string) <-chan struct{} {
	found := make(chan struct{})
	go func() {
		if rigtest.WaitUntil(rigtest.HangGuard, func() bool { _, err := os.Stat(path); return err == nil }) {
			close(found)
		}
	}()
	return found
}

// waitingForTheBoard returns a run of a wagon with a silent microcontroller.
func waitingForTheBoard(t *testing.T) (*exec.Cmd, <-chan struct{}) {
	line, err := serialtest.Open()
	fatal.If(t, err)
	t.Cleanup(func() { _ = line.Close() })
	waiting := make(chan struct{})
	go func() {
		_, _ = line.Read(make([]byte, 1))
		close(waiting)
	}()
	const board = "robot.composite.devices[1].mcu."
	cmd := program(t, board+"port.path="+line.Path, board+"start_timeout_ms=60000",
		"model.bundle="+rigtest.WagonBundle(t))
	cmd.Args = append(cmd.Args, "--config", rigtest.WagonFile)
	cmd.Env = append(cmd.Env, rigtest.RigVariable+"=1")
	return cmd, waiting
}

// waitingForTheHost returns a run with a host process that hangs before it is ready.
func waitingForTheHost(t *testing.T) (*exec.Cmd, <-chan struct{}) {
	hung := filepath.Join(t.TempDir(), "hung")
	cmd := program(t, "operator.source=none")
	cmd.Env = append(cmd.Env, spoiledHost+"=hangs at its start", spoiledWhen+"="+hung)
	return cmd, exists(hung)
}

// unloadable is a model with an Evaluator that fails.
type unloadable struct{ setup.NativeModel }

var errUnloadable = errors.New("it cannot be loaded")

func (unloadable) Evaluator(configs.File) (tflite.Evaluator, error) { return nil, errUnloadable }

// While a model is loaded, a signal ends the process without a halt: devices are not yet open.
func TestRun_LoadsItsModelBeforeItOpensTheRobot(t *testing.T) {
	s := rigtest.NewSession(t, func(f *configs.File) {
		f.Robot.Driver = "bridge"
		rigtest.EditRobot(f, func(c *bridge.Config) { c.Address = "unix:/nonexistent" })
		f.Operator.Source = configs.SourceNone
	})
	s.Model = unloadable{s.Model.(setup.NativeModel)}
	errtest.Is(t, runRealTime(t.Context(), s, runFlags{}), errUnloadable, "in real time")
	errtest.Is(t, runFast(t.Context(), s, runFlags{}, io.Discard), errUnloadable, "in lockstep")
}
