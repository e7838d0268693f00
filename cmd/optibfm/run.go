package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/control"
	"optibfm/internal/link"
	"optibfm/internal/lockstep"
	"optibfm/internal/setup"
	"optibfm/internal/summary"
	"optibfm/internal/terminal"
)

const embeddedConfig = "rover" // what runs without arguments

// runFlags are the flags of run: shorthands for configuration keys, and how
// the run is shown.
type runFlags struct {
	config   string
	set      []string
	task     string
	strategy string
	operator string
	episodes int
	seed     uint64

	givenEpisodes, givenSeed bool // 0 may be meant

	fast   bool
	shadow bool
	fresh  bool
	oracle bool
	plain  bool
	jsonl  bool
	json   bool
}

func newRunCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use: "run", Args: cobra.NoArgs,
		Short: "Run a robot: by default the built-in rover with a simulated operator",
		Example: `  optibfm run                                  watch the rover find out its task
  optibfm run --operator keyboard --task spin  label it yourself
  optibfm run --fast --json                    in lockstep, as fast as it can
  optibfm run --config cheetah                 dm_control's cheetah over the bridge
  optibfm run --set controller.gate.kappa=0.1  any key of the configuration`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.givenEpisodes, f.givenSeed = cmd.Flags().Changed("episodes"), cmd.Flags().Changed("seed")
			return run(cmd.Context(), f, cmd.OutOrStdout())
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.config, "config", "c", embeddedConfig, "a `CONFIG`: a file, or a name (optibfm config list)")
	fl.StringArrayVar(&f.set, "set", nil, "override a key of the configuration: `KEY=VALUE`; repeatable")
	fl.StringVar(&f.task, "task", "", "what a simulated robot is rewarded for; rover: "+strings.Join(setup.RoverTasks(), ", "))
	fl.StringVar(&f.strategy, "strategy", "", "controller.strategy: "+strings.Join(controller.Strategies(), ", "))
	fl.StringVar(&f.operator, "operator", "", "operator.source: scripted, keyboard, console, evdev, gpio, web, none")
	fl.IntVar(&f.episodes, "episodes", 0, "end after so many (run.episodes); 0: no limit")
	fl.Uint64Var(&f.seed, "seed", 0, "of everything that is random")
	fl.BoolVar(&f.fast, "fast", false, "as fast as it can, in simulated time (run.lockstep)")
	fl.BoolVar(&f.shadow, "shadow", false, "sense and decide, but neither arm nor move the robot (run.shadow)")
	fl.BoolVar(&f.fresh, "fresh", false, "set aside what earlier runs have learnt (run.state_dir) and start from nothing")
	fl.BoolVar(&f.oracle, "oracle", false, "rover: follow the z of 50,000 labels, ask for none")
	fl.BoolVar(&f.plain, "plain", false, "lines instead of the full screen")
	fl.BoolVar(&f.jsonl, "jsonl", false, "lines of JSON, for a collector of logs; the summary is the last")
	fl.BoolVar(&f.json, "json", false, "print the summary as JSON, without baselines, and nothing else")
	return cmd
}

// overrides turns the flags that were given into configuration overrides.
func (f runFlags) overrides(driver string) []string {
	var o []string
	add := func(key string, value any) { o = append(o, fmt.Sprintf("%s=%v", key, value)) }
	if f.task != "" {
		add("robot."+driver+".task", f.task)
	}
	if f.strategy != "" {
		add("controller.strategy", f.strategy)
	}
	if f.operator != "" {
		add("operator.source", f.operator)
	}
	if f.givenEpisodes {
		add("run.episodes", f.episodes)
	}
	if f.givenSeed {
		for _, key := range []string{"run.seed", "controller.seed", "operator.scripted.seed"} {
			add(key, f.seed)
		}
		if driver == configs.DriverRover {
			add("robot.rover.seed", f.seed)
		}
	}
	if f.fast {
		add("run.lockstep", true)
	}
	if f.shadow {
		add("run.shadow", true)
	}
	return append(o, f.set...)
}

// show is how the flags want the run to be shown.
func (f runFlags) show() string {
	switch {
	case f.json:
		return terminal.ShowNone
	case f.jsonl:
		return terminal.ShowJSON
	case f.plain:
		return terminal.ShowLines
	}
	return terminal.ShowAuto
}

func run(ctx context.Context, f runFlags, out io.Writer) error {
	s, err := openRun(f)
	if err != nil {
		return err
	}
	s.Invoked = Invoked(os.Args[0], f, s.File)
	if f.oracle {
		if err := summary.FollowOracle(s); err != nil {
			return err
		}
	}
	if err := s.LoadWarmStart(); err != nil {
		return err
	}
	if s.File.Run.Lockstep {
		return runFast(ctx, s, f, out)
	}
	return runRealTime(ctx, s, f)
}

// runRealTime runs a session in real time. Until the model is loaded, a signal has
// its default effect and ends the process at once: nothing else would end a call of
// TensorFlow, and no device is open that would have to be halted.
func runRealTime(ctx context.Context, s *setup.Session, f runFlags) error {
	if err := s.CheckTerminal(); err != nil {
		return err
	}
	network, err := s.Model.Evaluator(s.File)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, link.StopSignals...)
	defer stop()
	show := f.show()
	source := s.File.Operator.Source
	if show == terminal.ShowAuto && (source == configs.SourceConsole || source == configs.SourceWeb) {
		show = terminal.ShowLines // the console's lines, or a QR code, and a full screen do not mix
	}
	return control.Run(ctx, s, network, link.HostConfig{Show: show, JSON: f.json || f.jsonl, Invoked: s.Invoked})
}

// runFast runs a session in lockstep. As in real time, it loads the models before
// it handles signals. A second signal changes nothing: every exit halts the robot.
func runFast(ctx context.Context, s *setup.Session, f runFlags, out io.Writer) error {
	r, err := lockstep.New(s, terminal.NewDisplay(out, f.show()))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, link.StopSignals...)
	defer stop()
	result, err := r.Play(ctx)
	if err != nil && result.Tally == nil {
		return err
	}
	return errors.Join(err, summary.Print(ctx, out, s, result, f.json || f.jsonl))
}

// load loads the configuration that the flags name and change.
func (f runFlags) load() (configs.File, error) {
	base, err := configs.Load(f.config, f.set...)
	if err != nil {
		return configs.File{}, err
	}
	return configs.Load(f.config, f.overrides(base.Robot.Driver)...)
}

// openRun loads the configuration and opens its session.
func openRun(f runFlags) (*setup.Session, error) {
	file, err := f.load()
	if err != nil {
		return nil, err
	}
	return setup.OpenSession(file, f.fresh)
}
