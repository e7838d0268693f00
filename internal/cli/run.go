package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/cli/tasks"
	"optibfm/internal/control"
	"optibfm/internal/ipc"
	"optibfm/internal/journal"
	"optibfm/internal/lockstep"
	"optibfm/internal/plaintext"
	"optibfm/internal/setup"
	"optibfm/internal/summary"
	"optibfm/internal/terminal"
	"optibfm/rewardsrc/web"
	"optibfm/rtloop"
)

// runFlags are the flags of run: shorthands for configuration keys, and the output
// format.
type runFlags struct {
	config   string
	set      []string
	task     string
	start    string
	strategy string
	operator string
	episodes int
	seed     uint64

	episodesGiven, seedGiven bool // 0 is a valid value

	fast   bool
	shadow bool
	fresh  bool
	oracle bool
	lan    bool
	plain  bool
	jsonl  bool
	json   bool
}

func newRunCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use: "run", Args: cobra.NoArgs,
		Short: "Run a robot: by default the built-in rover with a simulated operator",
		Long:  "Run a robot: by default the built-in rover with a simulated operator.\n\n" + simulatorTasks(),
		Example: `  optibfm run                                    the rover finds its task
  optibfm run --operator keyboard --task spin    you give the labels
  optibfm run --fast --json                      in simulated time, without waiting
  optibfm run --config cheetah                   dm_control's cheetah over the bridge
  optibfm run --start gentle-turn                from a saved task (optibfm task)
  optibfm run --set controller.gate.kappa=0.1    any key of the configuration`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.episodesGiven, f.seedGiven = cmd.Flags().Changed("episodes"), cmd.Flags().Changed("seed")
			return run(cmd.Context(), f, cmd.OutOrStdout())
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.config, "config", "c", configs.DefaultName(), "a `CONFIG`: a file, or a name (optibfm config list)")
	addSetFlag(cmd, &f.set)
	fl.StringVar(&f.task, "task", "", "task of a simulated robot, which its simulated operator rewards")
	fl.StringVar(&f.start, "start", "", "start from the task `NAME` (optibfm task); the last one becomes previous")
	fl.StringVar(&f.strategy, "strategy", "", "controller.strategy: "+strings.Join(controller.Strategies(), ", "))
	fl.StringVar(&f.operator, "operator", "", "operator.source: scripted, keyboard, console, evdev, gpio, web, none")
	fl.IntVar(&f.episodes, "episodes", 0, "number of episodes (run.episodes); 0: no limit")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of all random numbers")
	fl.BoolVar(&f.fast, "fast", false, "run in simulated time, without waiting (run.lockstep)")
	fl.BoolVar(&f.shadow, "shadow", false, "sense and decide, but neither arm nor move the robot (run.shadow)")
	fl.BoolVar(&f.fresh, "fresh", false, "start from the prior or run.start_task; the task last becomes previous")
	fl.BoolVar(&f.oracle, "oracle", false, "rover: follow the z of 50,000 labels and ask for none")
	fl.BoolVar(&f.lan, "lan", false, "open the console to the network, with TLS (operator.web: listen, tls, hosts)")
	fl.BoolVar(&f.plain, "plain", false, "print lines instead of the full screen")
	fl.BoolVar(&f.jsonl, "jsonl", false, "print lines of JSON for a log collector; the last is the summary")
	fl.BoolVar(&f.json, "json", false, "print only the summary, as JSON without baselines")
	completeStart := func(
		cmd *cobra.Command, _ []string, prefix string,
	) ([]cobra.Completion, cobra.ShellCompDirective) {
		return completeTask(&tasks.Options{Config: f.config, Set: f.set}, true)(cmd, nil, prefix)
	}
	completeSimulated := func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		file, err := configs.Load(f.config, f.set...)
		if err != nil { // a completion reports no errors
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return file.Robot.Tasks(), cobra.ShellCompDirectiveNoFileComp
	}
	err := errors.Join(cmd.RegisterFlagCompletionFunc("start", completeStart),
		cmd.RegisterFlagCompletionFunc("task", completeSimulated))
	if err != nil {
		panic(err) // no such flag
	}
	return cmd
}

// simulatorTasks lists the tasks of each simulated robot among the ready-made configurations.
func simulatorTasks() string {
	var b strings.Builder
	b.WriteString("The tasks of simulated robots (--task):\n")
	for _, name := range []string{"rover", "walker", "cheetah", "quadruped", "antmaze", "g1"} {
		if !slices.Contains(configs.Names(), name) {
			continue // the program does not have its driver
		}
		file, err := configs.Load(name)
		if err != nil {
			panic(err) // they are embedded
		}
		b.WriteString(plaintext.Wrap("  " + name + ": " + strings.Join(file.Robot.Tasks(), ", ")))
	}
	b.WriteString("A wrong name lists those of another robot, such as humenv.")
	return b.String()
}

// overrides returns the configuration overrides of the given flags.
func (f runFlags) overrides(r configs.Robot) []string {
	var o []string
	add := func(given bool, key string, value any) {
		if given {
			o = append(o, fmt.Sprintf("%s=%v", key, value))
		}
	}
	add(f.task != "", "robot."+r.Driver+".task", f.task)
	add(f.start != "", "run.start_task", f.start)
	add(f.strategy != "", "controller.strategy", f.strategy)
	add(f.operator != "", "operator.source", f.operator)
	add(f.episodesGiven, "run.episodes", f.episodes)
	for _, key := range []string{"run.seed", "controller.seed", "operator.scripted.seed"} {
		add(f.seedGiven, key, f.seed)
	}
	add(f.seedGiven && r.HasKey("seed"), "robot."+r.Driver+".seed", f.seed)
	add(f.fast, "run.lockstep", true)
	add(f.shadow, "run.shadow", true)
	return append(o, f.set...)
}

// lanOverrides returns the overrides that open a console to the network.
func lanOverrides(c web.Config) []string {
	c = c.OnNetwork()
	return []string{
		"operator.web.listen=" + c.Listen, "operator.web.tls=" + c.TLS,
		`operator.web.hosts=["` + strings.Join(c.Hosts, `", "`) + `"]`,
	}
}

// show returns the output format that the flags select.
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
	s.Invoked = invocation(os.Args[0], f, s.File)
	if f.oracle {
		if err := summary.FollowOracle(ctx, s); err != nil {
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

// runRealTime runs a session in real time. It handles signals only after the model is
// loaded: nothing else can end a call of TensorFlow, and all devices are still closed.
func runRealTime(ctx context.Context, s *setup.Session, f runFlags) error {
	if err := s.CheckTerminal(); err != nil {
		return err
	}
	network, err := s.Model.Evaluator(s.File)
	if err != nil {
		return err
	}
	ctx, stop := ipc.UntilSignal(ctx, ipc.StopSignals...)
	defer stop()
	show := f.show()
	source := s.File.Operator.Source
	if show == terminal.ShowAuto && (source == configs.SourceConsole || source == configs.SourceWeb) {
		show = terminal.ShowLines // the full screen would overwrite the console's lines or the QR code
	}
	if (show == terminal.ShowAuto || show == terminal.ShowLines) && journal.Reads(os.Stdout) {
		show = terminal.ShowJournal
	}
	return control.Run(ctx, s, network, ipc.HostConfig{Show: show, JSON: f.json || f.jsonl, Invoked: s.Invoked})
}

// runFast runs a session in lockstep. It handles signals only after the models are
// loaded, as runRealTime. A second signal changes nothing: every exit halts the robot.
func runFast(ctx context.Context, s *setup.Session, f runFlags, out io.Writer) error {
	display := terminal.NewDisplay(out, f.show())
	r, err := lockstep.New(s, display)
	if err != nil {
		return err
	}
	ctx, stop := ipc.UntilSignal(ctx, ipc.StopSignals...)
	defer stop()
	keys := terminal.OpenKeys(display, f.show(), s.File.Operator.Source)
	if keys != nil {
		defer func() { _ = keys.Halt() }() // also after a panic
	}
	result, err := r.Play(ctx)
	if keys != nil {
		err = errors.Join(err, keys.Halt())
	}
	if err != nil && result.Tally == nil {
		return err
	}
	return errors.Join(err, summary.Print(ctx, out, s, result, f.json || f.jsonl))
}

// load loads the configuration with the overrides of the flags.
func (f runFlags) load() (configs.File, error) {
	base, err := configs.Load(f.config, f.set...)
	if err != nil {
		return configs.File{}, err
	}
	set := f.overrides(base.Robot)
	if !f.lan {
		return configs.Load(f.config, set...)
	}
	local, err := configs.Load(f.config, set...)
	if err != nil {
		return configs.File{}, err
	}
	if o := local.Operator; o.Source != configs.SourceWeb && !o.Web.WatchOnly {
		return configs.File{}, fmt.Errorf("run: --lan: this run has no console (operator.source: %s); "+
			"add --operator web, or --set operator.web.watch_only=true", o.Source)
	}
	return configs.Load(f.config, append(set, lanOverrides(local.Operator.Web)...)...)
}

// openRun loads the configuration and opens its session.
func openRun(f runFlags) (*setup.Session, error) {
	began := rtloop.Now()
	file, err := f.load()
	if err != nil {
		return nil, err
	}
	if !file.Run.Lockstep {
		if err := control.Isolate(file.Run.HostUser); err != nil {
			return nil, err
		}
	}
	configured := ipc.Phase{Name: "configuration", End: rtloop.Now()}
	s, err := setup.OpenSession(file, f.fresh || f.start != "")
	if err != nil {
		return nil, err
	}
	s.Timeline = ipc.Timeline{Began: began, Phases: append([]ipc.Phase{configured}, s.Timeline.Phases...)}
	return s, nil
}
