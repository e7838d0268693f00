package recording

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/episodes"
	"optibfm/hal"
	"optibfm/internal/control"
	"optibfm/internal/ipc"
	"optibfm/internal/setup"
	"optibfm/rtloop"
)

// Config describes a recording.
type Config struct {
	Transitions int     // at least 2
	Seed        uint64  // of the actions and of a simulator's states
	Amplitude   float64 // of the actions around the failsafe output, in (0, 1]: a share of the limits' range
	Rhythms     float64 // share of a simulator's episodes with rhythms, in [0, 1]: see collect.Explorer
	Out         string  // .npz to write, which must not exist
	States      string  // .npz of a simulator's states with their rewards, which must not exist; empty: none
}

// minSteps and maxSteps limit an episode: short ones see more initial states.
const minSteps, maxSteps = 10, 100

func (c Config) validate() error {
	if c.Transitions < 2 || c.Transitions > 1e8 {
		return fmt.Errorf("collect: --transitions: found %d; give 2 to 100000000", c.Transitions)
	}
	if !(c.Amplitude > 0 && c.Amplitude <= 1) {
		return fmt.Errorf("collect: --amplitude: found %g; give more than 0, at most 1", c.Amplitude)
	}
	if !(c.Rhythms >= 0 && c.Rhythms <= 1) {
		return fmt.Errorf("collect: --rhythms: found %g; give 0 to 1", c.Rhythms)
	}
	return errors.Join(checkFree("--out", c.Out), checkFree("--states", c.States))
}

func checkFree(flag, path string) error {
	if _, err := os.Lstat(path); path == "" || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("collect: %s: the file exists; choose another %s, or move it away", path, flag)
}

// session is a recording in progress.
type session struct {
	config   Config
	file     configs.File
	robot    hal.Robot
	policy   *policy
	agent    *controller.Agent
	tick     *controller.Tick
	recorder *recorder
	rng      *rand.Rand
	steps    uint32      // left until the exploration changes
	late     atomic.Bool // the driver hung
}

// Run records transitions of the robot of file until there are enough, ctx is done or the robot
// stops, and writes them. in is the operator who arms a real robot. progress receives the state of
// the recording.
func Run(ctx context.Context, file configs.File, c Config, in io.Reader, out, progress io.Writer) (err error) {
	if err := c.validate(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("collect: %w", err)
		}
	}()
	ctx, stop := ipc.UntilSignal(ctx, ipc.StopSignals...)
	defer stop()
	lock, err := control.Listen(file.Safety) // no run and no `optibfm halt` may use the robot meanwhile
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	now := rtloop.Now
	if setup.Simulated(file.Robot) {
		now = nil
	}
	robot, err := setup.OpenDriver(ctx, file, now)
	if err != nil {
		return err
	}
	s, err := newSession(robot, file, c)
	if err != nil {
		return errors.Join(err, setup.CloseRobot(robot))
	}
	return s.run(ctx, in, out, progress)
}

// run records, halts the robot and writes the file.
func (s *session) run(ctx context.Context, in io.Reader, out, progress io.Writer) (err error) {
	defer func() {
		if s.recorder.rows.Len() > 0 {
			err = errors.Join(err, s.save(out))
		}
	}()
	defer func() {
		if !errors.Is(err, errStuck) { // the stuck thread may still use the robot
			err = errors.Join(err, setup.CloseRobot(s.robot))
		}
	}()
	if setup.CanWaitForHost(s.robot, s.file) {
		return s.watched(progress, func() error { return s.simulate(ctx) })
	}
	if err := s.prepare(ctx, in, progress); err != nil {
		return err
	}
	return s.watched(progress, func() error { return s.drive(ctx, progress) })
}

func newSession(robot hal.Robot, file configs.File, c Config) (*session, error) {
	simulated := setup.Simulated(file.Robot)
	file.Run.Lockstep, file.Run.Shadow = simulated, false
	spec := robot.Spec()
	if _, ok := robot.(hal.Rewarder); !ok && c.States != "" {
		return nil, errors.New("--states: this robot gives no rewards; leave it out")
	}
	if !simulated && c.Rhythms > 0 {
		return nil, errors.New("--rhythms: they begin with a jump, and this robot runs in real time; leave it out")
	}
	if !simulated && spec.Period != file.Loop.Period() {
		return nil, fmt.Errorf("loop.period_ms: found %v, but the robot's period is %v; set loop.period_ms to it",
			file.Loop.Period(), spec.Period)
	}
	s := &session{config: c, file: file, robot: robot, rng: rand.New(rand.NewPCG(c.Seed, 0x636f6c6c656374))}
	s.policy = newPolicy(spec, c.Amplitude, s.rng)
	k := controller.DefaultConfig()
	k.Strategy, k.Prior, k.Gate.Off, k.Guard = controller.Random, controller.Isotropic, true, file.Controller.Guard
	planner, err := controller.NewPlanner(k, s.policy)
	if err != nil {
		return nil, err
	}
	s.agent, err = controller.NewAgent(k, controller.Parts{
		Robot: robot, Source: setup.NoOperator{}, Model: s.policy, Plans: controller.NewLockstep(planner),
		Safety: file.Rules(setup.SimulatedOrShadow(robot, file)),
	})
	if err != nil {
		return nil, err
	}
	s.tick = controller.NewTick(s.agent.Shape())
	s.recorder = newRecorder(spec, c.Transitions, !simulated)
	return s, nil
}

// simulate records a simulator in its own time.
func (s *session) simulate(ctx context.Context) error {
	if err := s.agent.Arm(rtloop.Now()); err != nil {
		return err
	}
	stepper := episodes.Stepper{Agent: s.agent, Period: s.robot.Spec().Period, Episodes: episodes.Episodes{
		Robot: episodes.Resetter(s.robot), Steps: maxSteps, Seed: s.config.Seed,
	}}
	s.explore()
	for ctx.Err() == nil && !s.recorder.full() {
		if _, err := stepper.Step(s.tick); err != nil {
			return err
		}
		s.recorder.note(s.tick)
		switch {
		case s.tick.Flags.Has(controller.FlagEpisodeStart):
			stepper.Episodes.Steps = s.drawSteps() // of this episode
		case s.tick.Flags.Has(controller.FlagEpisodeEnd):
			s.explore()
		}
	}
	return s.agent.Halt(controller.FaultNone)
}

// explore begins the exploration of a simulator's episode.
func (s *session) explore() {
	if s.config.Rhythms > 0 && s.rng.Float64() < s.config.Rhythms {
		s.policy.explorer.BeginRhythm()
		return
	}
	s.policy.explorer.Begin()
}

func (s *session) drawSteps() uint32 { return minSteps + s.rng.Uint32N(maxSteps-minSteps+1) }

// prepare checks a real robot and waits until its operator arms it.
func (s *session) prepare(ctx context.Context, in io.Reader, out io.Writer) error {
	if setup.SimulatedOrShadow(s.robot, s.file) {
		return nil
	}
	if err := errors.Join(setup.CheckArming(out, s.robot, s.file), setup.CheckBounds(out, s.robot, s.file)); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s will move at random, up to %.0f %% of its range from the failsafe output.\n"+
		"Keep people away and a hand on the emergency stop. Ctrl-C halts the robot.\n"+
		"Type arm and press Enter: ", s.robot.Spec().Name, 100*s.config.Amplitude)
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(in).ReadString('\n')
		line <- strings.TrimSpace(text)
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case answer := <-line:
		if answer != "arm" {
			return fmt.Errorf("the operator did not arm the robot (%q); type arm", answer)
		}
		return nil
	}
}

var (
	errFull  = errors.New("enough transitions")
	errLate  = errors.New("the driver hung and returned late")
	errStuck = errors.New("the driver hangs; the robot was halted beside it, if it has a second path")
)

// stuckGrace is the longest hang of a driver before the process ends without it. Its end triggers
// the device's deadman.
const stuckGrace = time.Second

// drive records a robot in real time.
func (s *session) drive(ctx context.Context, out io.Writer) error {
	loop, granted, err := rtloop.Prepare(s.file.Loop)
	if err != nil {
		return err
	}
	defer loop.Close()
	for _, g := range granted.Missing() {
		fmt.Fprintf(out, "warning: loop.%s: %s: not granted (%s); %s\n", g.Request, g.Asked, g.Why, g.Fix)
	}
	s.tick.Wake = rtloop.Now()
	if err := s.agent.Step(s.tick); err != nil { // an emergency stop that is pressed, or a failed sensor, refuses Arm
		return err
	}
	if err := s.agent.Arm(rtloop.Now()); err != nil {
		return err
	}
	loop.Halt = func(error) { _ = s.agent.Halt(controller.FaultNone) } // CloseRobot halts again and reports
	stuck := make(chan struct{})
	loop.OnStuck = func(rtloop.Stall) {
		s.late.Store(true)
		if b, ok := s.robot.(hal.Backstop); ok {
			b.HaltBeside()
		}
		close(stuck)
	}
	over := make(chan error, 1)
	go func() {
		_, err := loop.Run(ctx, s.onBeat)
		over <- err
	}()
	select {
	case err = <-over:
	case <-stuck:
		select {
		case err = <-over:
		case <-time.After(stuckGrace):
			return errStuck
		}
	}
	if errors.Is(err, errFull) {
		return nil
	}
	return err
}

// onBeat runs one tick. It allocates nothing.
func (s *session) onBeat(b rtloop.Beat) error {
	if s.steps == 0 {
		s.policy.explorer.BeginSmooth()
		s.steps = s.drawSteps()
	}
	s.steps--
	t := s.tick
	t.Index, t.Elapsed, t.Deadline, t.Wake = b.Index+1, b.Elapsed, b.Deadline, b.Wake // the tick before Arm was 0
	err := s.agent.Step(t)
	if s.late.Load() {
		return errLate
	}
	if err != nil {
		return err
	}
	s.recorder.note(t)
	if s.recorder.full() {
		return errFull
	}
	return nil
}

// save writes the recording and prints its size.
func (s *session) save(out io.Writer) error {
	r := s.recorder
	if err := r.write(s.config.Out); err != nil {
		return err
	}
	if s.config.States != "" {
		if err := r.writeStates(s.config.States, cmp.Or(s.file.Robot.Task(), "reward")); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "%d transitions in %d episodes, %d left out: %s\n",
		r.rows.Len(), r.episode+1, r.skipped, s.config.Out)
	return err
}
