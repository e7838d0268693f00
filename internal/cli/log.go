package cli

import (
	"github.com/spf13/cobra"

	"optibfm/internal/cli/review"
	"optibfm/internal/cli/tasks"
)

// damageHelp is in the help of each command that reads logs.
const damageHelp = `The log of a killed process ends early, which is normal. A log that was changed
after it was written, for example by a failing disk, is damaged: the command
still shows what it can read, but its exit status is 3.`

func newLogCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Print, label and repair the log of a run",
		Long: `A log is an MCAP file with protobuf messages and their definitions. Foxglove,
PlotJuggler and the mcap command read it. "optibfm replay" verifies it.

` + damageHelp,
		Example: `  optibfm log info run.mcap
  optibfm log recover cut.mcap -o complete.mcap`,
	}
	return withSubcommands(cmd, newLogInfo(), newLogCat(), newLogLabel(), newLogRecover(), newLogRelease())
}

func newLogInfo() *cobra.Command {
	const short = "Print a summary of a log and whether it is complete"
	return &cobra.Command{
		Use:     "info FILE",
		Short:   short,
		Long:    short + ".\n\n" + damageHelp,
		Example: "  optibfm log info run.mcap",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return review.Info(cmd.OutOrStdout(), args[0])
		},
	}
}

func newLogCat() *cobra.Command {
	var topic string
	cmd := &cobra.Command{
		Use:     "cat FILE",
		Short:   "Print the messages of a log as JSON, one per line",
		Example: "  optibfm log cat run.mcap --topic /label",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return review.Cat(cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], topic)
		},
	}
	cmd.Flags().StringVar(&topic, "topic", "", "only this topic, such as /label")
	return cmd
}

func newLogLabel() *cobra.Command {
	var o tasks.Options
	var n tasks.New
	var propose int
	var out, labels string
	cmd := &cobra.Command{
		Use:   "label FILE (--propose N | --labels CSV --save NAME)",
		Short: "Label moments of a log afterwards, and save what they teach as a task",
		Long: `With --propose: write the moments whose labels would teach most as
CSV. Column time_s counts seconds since the first tick, gain_nats is the D-gap, expected
the label that the robot predicts. Fill the column label: a number, + or - (the values of
the buttons of the log's operator), or nothing. The page of "optibfm replay --html" shows such
moments, with the picture of the robot if pictures were recorded, and saves labels in this format.

With --labels: apply the labels to the belief at the end of the log and save a task.
"optibfm run --start NAME" starts from it. Labels given afterwards have the weight of a
label about the present. If a row is unreadable or belongs to another log, the command
saves nothing. It refuses a damaged log.`,
		Example: `  optibfm log label run.mcap --propose 20 --out moments.csv
  optibfm log label run.mcap --labels moments.csv --save gentle-turn -c myrobot.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if labels != "" {
				return tasks.Label(cmd.OutOrStdout(), o, n, args[0], labels)
			}
			return tasks.Propose(cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], propose, out)
		},
	}
	addRobotFlags(cmd, &o)
	addNewFlags(cmd, &n)
	cmd.Flags().IntVar(&propose, "propose", 0, "propose `N` moments")
	cmd.Flags().StringVar(&out, "out", "", "a new `CSV` file for the moments (default: standard output)")
	cmd.Flags().StringVar(&labels, "labels", "", "a `CSV` file of moments with labels")
	cmd.Flags().StringVar(&n.Name, "save", "", "the `NAME` of the task")
	cmd.MarkFlagsOneRequired("propose", "labels")
	cmd.MarkFlagsMutuallyExclusive("propose", "labels")
	cmd.MarkFlagsMutuallyExclusive("out", "labels")
	cmd.MarkFlagsRequiredTogether("labels", "save")
	return cmd
}

func newLogRecover() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "recover FILE",
		Short: "Copy the readable part of a log to a new, indexed and compressed log",
		Long: `Copy the readable records of a log bit for bit to a new log with indexes, a
summary and zstd compression. The command changes and overwrites no file.`,
		Example: "  optibfm log recover cut.mcap -o complete.mcap",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return review.Recover(cmd.OutOrStdout(), args[0], out)
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write (default: FILE with -recovered)")
	return cmd
}

func newLogRelease() *cobra.Command {
	return &cobra.Command{
		Use:   "release FILE...",
		Short: "Mark logs that were copied elsewhere, so that runs may delete them",
		Long: `Mark logs as removable. A run deletes marked logs when log.keep_gb or
log.min_free_gb needs space. It never deletes other logs, because of their labels.
"optibfm replay" marks a log that it verified and that has no labels of a person.
A damaged log is not marked: copy the readable part, then delete it yourself.`,
		Example: `  scp 'robot:/var/log/optibfm/*.mcap' .
  ssh robot 'optibfm log release /var/log/optibfm/*.mcap'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return review.Release(args) },
	}
}
