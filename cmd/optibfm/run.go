package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"optibfm/configs"
)

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
	fast     bool
	oracle   bool
	plain    bool
	json     bool
}

func newRunCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use: "run", Args: cobra.NoArgs,
		Short: "run a robot: by default the built-in rover with a simulated operator",
		Example: `  optibfm run                                  watch the rover find out its task
  optibfm run --operator keyboard --task spin  label it yourself
  optibfm run --fast --json                    in lockstep, as fast as it can
  optibfm run --config cheetah                 dm_control's cheetah over the bridge
  optibfm run --set controller.gate.kappa=0.1  any key of the configuration`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
			return run(ctx, f, cmd.OutOrStdout())
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.config, "config", "c", "rover", "a configuration: a file, or one of `optibfm config list`")
	fl.StringArrayVar(&f.set, "set", nil, "override a key, such as controller.gate.kappa=0.1; may be repeated")
	fl.StringVar(&f.task, "task", "", "task of a simulated robot (robot.rover.task or robot.bridge.task)")
	fl.StringVar(&f.strategy, "strategy", "", "controller.strategy: ucb, ucb_sphere, ucb_gradient, thompson, random or fixed")
	fl.StringVar(&f.operator, "operator", "", "operator.source: scripted, keyboard or none")
	fl.IntVar(&f.episodes, "episodes", 0, "run.episodes")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of everything that is random")
	fl.BoolVar(&f.fast, "fast", false, "lockstep: simulated time, one process, as fast as it can (run.lockstep)")
	fl.BoolVar(&f.oracle, "oracle", false, "rover: follow the z inferred from 50,000 labelled observations; ask for nothing")
	fl.BoolVar(&f.plain, "plain", false, "lines instead of the full screen")
	fl.BoolVar(&f.json, "json", false, "print the summary as JSON and nothing else")
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
	if f.episodes != 0 {
		add("run.episodes", f.episodes)
	}
	if f.seed != 0 {
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
	return append(o, f.set...)
}

func run(ctx context.Context, f runFlags, out io.Writer) error {
	s, err := openSession(f)
	if err != nil {
		return err
	}
	if f.oracle {
		if err := s.followOracle(ctx); err != nil {
			return err
		}
	}
	if !s.file.Run.Lockstep {
		return runControl(ctx, s, orders{Plain: f.plain, JSON: f.json})
	}
	result, err := runLockstep(ctx, s, newDisplay(out, f.plain, f.json))
	if err != nil && result.tally == nil {
		return err
	}
	return errors.Join(err, summarise(ctx, out, s, result, f.json))
}

// openSession loads the configuration and the model.
func openSession(f runFlags) (*session, error) {
	base, err := configs.Load(f.config, f.set...)
	if err != nil {
		return nil, err
	}
	file, err := configs.Load(f.config, f.overrides(base.Robot.Driver)...)
	if err != nil {
		return nil, err
	}
	s := &session{file: file}
	if s.bundle, err = openBundle(file.Model); err != nil {
		return nil, err
	}
	if err := file.Controller.Validate(s.bundle.Dims().Latent); err != nil {
		return nil, err
	}
	return s, s.settle()
}
