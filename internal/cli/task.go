package cli

import (
	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/internal/cli/tasks"
)

func newTaskCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "task",
		Short: "Keep the tasks that a robot learnt, and start runs from them",
		Long: `A saved task is what a robot learnt: a task embedding z and its belief, with
their origin. "optibfm run --start NAME" starts from it, and "optibfm task switch NAME"
gives it to a running robot. A task belongs to one model.
The folder is run.task_dir, by default the folder "tasks" beside run.state_dir. In
run.state_dir, a run itself writes "last", its newest belief, and "previous", that
before the last switch, new task or fresh run.`,
		Example: `  optibfm task save gentle-turn -c myrobot.yaml --note slow
  optibfm run -c myrobot.yaml --start gentle-turn
  optibfm task switch walk -c myrobot.yaml`,
	}
	return withSubcommands(cmd, newTaskSave(), newTaskSwitch(), newTaskNew(), newTaskList(), newTaskShow(),
		newTaskDelete(), newTaskFromLog(), newTaskExport(), newTaskImport(), newTaskMerge())
}

// addRobotFlags adds the flags that select the configuration of a robot.
func addRobotFlags(cmd *cobra.Command, o *tasks.Options) {
	cmd.Flags().StringVarP(&o.Config, "config", "c", configs.DefaultName(), "the `CONFIG` that the robot runs with")
	addSetFlag(cmd, &o.Set)
}

// addNewFlags adds the flags of a task to be saved.
func addNewFlags(cmd *cobra.Command, n *tasks.New) {
	cmd.Flags().StringVar(&n.Note, "note", "", "a `TEXT` to keep with the task")
	cmd.Flags().BoolVar(&n.Replace, "replace", false, "replace a task of the same name")
}

// completeTask completes the name of a task as the only argument. ofModel: of one that fits the
// model.
func completeTask(o *tasks.Options, ofModel bool) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return tasks.Names(*o, ofModel), cobra.ShellCompDirectiveNoFileComp
	}
}

func newTaskSave() *cobra.Command {
	var o tasks.Options
	var n tasks.New
	var from string
	cmd := &cobra.Command{
		Use:   "save NAME",
		Short: "Save the task of the last run, or of the running robot",
		Long: `Save the task "last" under another name. A run writes it to run.state_dir after every
label, every log.snapshot_s and at its end. Save the task of a running robot at any
moment: the belief is that after the newest label. With a log in --from, the belief is
that after its last tick.`,
		Example: `  optibfm task save gentle-turn -c myrobot.yaml --note slow
  optibfm task save gentle-turn --from /var/lib/optibfm/belief
  optibfm task save gentle-turn --from run.mcap`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n.Name = args[0]
			return tasks.Save(cmd.OutOrStdout(), o, n, from)
		},
	}
	addRobotFlags(cmd, &o)
	addNewFlags(cmd, &n)
	cmd.Flags().StringVar(&from, "from", "", "the `PATH` of a run.state_dir or of a log (default: run.state_dir)")
	return cmd
}

func newTaskSwitch() *cobra.Command {
	var o tasks.Options
	var socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "switch NAME",
		Short: "Let a running robot switch to a task",
		Long: `Replace the belief of a running robot by that of a task. The robot may be armed: it then
turns to the task within controller.explore. A stopped robot refuses. The task needs
the run's model, prior, offset and noise. Earlier labels can no longer be undone. With
run.state_dir, the current task becomes "previous": switch to that to go back.`,
		Example: `  optibfm task switch walk -c myrobot.yaml
  optibfm task switch previous -c myrobot.yaml`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTask(&o, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			return tasks.Switch(cmd.OutOrStdout(), o, args[0], socket, asJSON)
		},
	}
	addSocketFlags(cmd, &o, &socket, &asJSON)
	return cmd
}

// addSocketFlags adds the flags of a command to a running robot.
func addSocketFlags(cmd *cobra.Command, o *tasks.Options, socket *string, asJSON *bool) {
	addRobotFlags(cmd, o)
	cmd.Flags().StringVar(socket, "socket", "", "the robot's safety.socket (default: the configuration's)")
	cmd.Flags().BoolVar(asJSON, "json", false, "print the robot's answer as JSON")
}

func newTaskNew() *cobra.Command {
	var o tasks.Options
	var socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "new", Args: cobra.NoArgs,
		Short: "Let a running robot begin a task without labels",
		Long: `Let a running robot forget all labels, as "run --fresh" does. The rules of
"task switch" hold. Save the current task first.`,
		Example: "  optibfm task new -c myrobot.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return tasks.Begin(cmd.OutOrStdout(), o, socket, asJSON)
		},
	}
	addSocketFlags(cmd, &o, &socket, &asJSON)
	return cmd
}

func newTaskList() *cobra.Command {
	var o tasks.Options
	cmd := &cobra.Command{
		Use: "list", Args: cobra.NoArgs,
		Short: "List the saved tasks",
		Long: `List the saved tasks, and mark those whose model is not the configuration's. A
file that cannot be read does not hide the others; the exit status is then 1.`,
		Example: "  optibfm task list -c myrobot.yaml",
		RunE:    func(cmd *cobra.Command, _ []string) error { return tasks.List(cmd.OutOrStdout(), o) },
	}
	addRobotFlags(cmd, &o)
	return cmd
}

func newTaskShow() *cobra.Command {
	var o tasks.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "show NAME",
		Short:             "Print the origin and the belief of a task",
		Example:           "  optibfm task show gentle-turn -c myrobot.yaml --json",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTask(&o, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return tasks.Show(cmd.OutOrStdout(), o, args[0], asJSON)
		},
	}
	addRobotFlags(cmd, &o)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with z")
	return cmd
}

func newTaskDelete() *cobra.Command {
	var o tasks.Options
	cmd := &cobra.Command{
		Use:               "delete NAME",
		Short:             "Delete a task",
		Example:           "  optibfm task delete gentle-turn -c myrobot.yaml",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTask(&o, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return tasks.Delete(cmd.OutOrStdout(), o, args[0])
		},
	}
	addRobotFlags(cmd, &o)
	return cmd
}

func newTaskFromLog() *cobra.Command {
	var o tasks.Options
	var n tasks.New
	var s tasks.Span
	cmd := &cobra.Command{
		Use:   "from-log FILE NAME --from T --to T",
		Short: "Make a task of a part of a log: more of this",
		Long: `Save the task "be in the states of this part of the log". T counts seconds since the
first tick, as "log info" and the page of "replay" do. z is the mean of B(s) over the
states. It has no belief: a run follows it with the strategy fixed. The log and the
configuration need the same forward-backward model. The command refuses a damaged log.`,
		Example: "  optibfm task from-log run.mcap spin --from 42 --to 45.5",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n.Name = args[1]
			return tasks.FromLog(cmd.OutOrStdout(), o, n, args[0], s)
		},
	}
	addRobotFlags(cmd, &o)
	addNewFlags(cmd, &n)
	cmd.Flags().Float64Var(&s.From, "from", 0, "first second of the part")
	cmd.Flags().Float64Var(&s.To, "to", 0, "last second of the part")
	requireFlags(cmd, "from", "to")
	return cmd
}

func newTaskExport() *cobra.Command {
	var o tasks.Options
	cmd := &cobra.Command{
		Use:   "export NAME FILE",
		Short: "Write a task to a file for another robot",
		Long: `Write a saved task to a new file, with its labels' ids, its model's hash and the channels
of that model. Another robot with the same model imports it.`,
		Example:           "  optibfm task export gentle-turn gentle-turn.task -c myrobot.yaml",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: completeTask(&o, true),
		RunE: func(cmd *cobra.Command, args []string) error {
			return tasks.Export(cmd.OutOrStdout(), o, args[0], args[1])
		},
	}
	addRobotFlags(cmd, &o)
	return cmd
}

func newTaskImport() *cobra.Command {
	var o tasks.Options
	var n tasks.New
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Save the task of an exported file",
		Long: `Save the task of a file of "task export" under its name. The model and its channels must
be those of the configuration; also prior, offset, sigma, lambda, rho, exact_restore and
noise.estimate of the controller, if the task has labels.`,
		Example: "  optibfm task import gentle-turn.task -c myrobot.yaml --save turn-of-the-other",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return tasks.Import(cmd.OutOrStdout(), o, n, args[0])
		},
	}
	addRobotFlags(cmd, &o)
	addNewFlags(cmd, &n)
	cmd.Flags().StringVar(&n.Name, "save", "", "save it under another `NAME`")
	return cmd
}

func newTaskMerge() *cobra.Command {
	var o tasks.Options
	var n tasks.New
	cmd := &cobra.Command{
		Use:   "merge A B --save NAME",
		Short: "Make one task of the labels of two",
		Long: `Save a task with the labels of two tasks of the same model, for example of two robots.
It counts each label once. If both began with the same task and learnt more since, that
task must be among the saved ones.`,
		Example: "  optibfm task merge turn turn-of-the-other -c myrobot.yaml --save turn-of-both",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return tasks.Merge(cmd.OutOrStdout(), o, n, args[0], args[1])
		},
	}
	addRobotFlags(cmd, &o)
	addNewFlags(cmd, &n)
	cmd.Flags().StringVar(&n.Name, "save", "", "the `NAME` of the new task")
	requireFlags(cmd, "save")
	return cmd
}
