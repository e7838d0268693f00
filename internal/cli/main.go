// Package cli is the command line: one file for each subcommand, which parses its flags and calls
// one function.
package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"optibfm/flightlog"
	"optibfm/internal/journal"
	"optibfm/internal/plaintext"
	"optibfm/internal/shell"
	"optibfm/internal/usage"
)

// exitDamaged is the exit status for a damaged log; that of other errors is 1.
const exitDamaged = 3

// Main runs the command line of the process and ends it.
func Main() {
	root := NewRootCommand()
	cleanOutput(root)
	root.Use = shell.Name()
	rename(root, shell.Invocation{Program: shell.Name()})
	if err := root.Execute(); err != nil {
		text := shell.ThisProgram().Renamed(plaintext.Printable(err.Error()))
		fmt.Fprintln(journal.For(os.Stderr, journal.Error), shell.Name()+":", text)
		os.Exit(exitStatus(err))
	}
}

// rename makes the help of a command and of its subcommands name this program.
func rename(cmd *cobra.Command, name shell.Invocation) {
	cmd.Short, cmd.Long = name.Renamed(cmd.Short), name.Renamed(cmd.Long)
	cmd.Example = name.Renamed(cmd.Example)
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = name.Renamed(f.Usage) })
	for _, c := range cmd.Commands() {
		rename(c, name)
	}
}

// cleanOutput removes control characters from what the commands print. The displays of run and sense
// need the terminal itself, and clean their texts.
func cleanOutput(root *cobra.Command) {
	for _, c := range root.Commands() {
		switch c.Name() {
		case "run", "host":
			continue
		case "sense":
			c.SetErr(plaintext.NewWriter(os.Stderr))
			continue
		case "halt": // the journal reads its warnings
		default:
			c.SetErr(plaintext.NewWriter(os.Stderr))
		}
		c.SetOut(plaintext.NewWriter(os.Stdout))
	}
}

func exitStatus(err error) int {
	if errors.Is(err, flightlog.ErrDamaged) {
		return exitDamaged
	}
	return 1
}

var added []func() *cobra.Command

// Add adds a command of a driver to the group "Set up".
func Add(command func() *cobra.Command) { added = append(added, command) }

// NewRootCommand returns the command line of the program, with the added commands.
func NewRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "optibfm",
		Short: "Run a robot that infers its task from a few reward labels",
		Long: `Run a robot that has a behaviour foundation model. The robot infers its task from
reward labels of its operator, and asks for a label only when the label would be
informative.`,
		Example: `  optibfm run                       the built-in rover and a simulated operator
  optibfm run --operator keyboard   you are the operator
  optibfm replay FILE               verify and explain the log of a run`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	group := func(id, title string, commands ...*cobra.Command) {
		root.AddGroup(&cobra.Group{ID: id, Title: title + ":"})
		for _, c := range commands {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	operate := append([]*cobra.Command{newRunCommand()}, newOperateCommands()...)
	group("operate", "Operate", append(operate, newHaltCommand())...)
	group("label", "Label", newLabelCommand(), newTaskCommand())
	group("review", "Review", newReplayCommand(), newLogCommand())
	group("models", "Models", newModelCommand(), newInferCommand())
	setup := []*cobra.Command{newNewRobotCommand(), newConfigCommand(), newSenseCommand(), newDoctorCommand(),
		newJitterCommand(), newConsoleCommand()}
	for _, command := range added {
		setup = append(setup, command())
	}
	group("setup", "Set up", append(setup, newVersionCommand())...)
	root.SetHelpCommandGroupID("setup")
	root.SetCompletionCommandGroupID("setup")
	root.AddCommand(newHostCommand())
	cobra.EnableCommandSorting = false
	usage.Explain(root)
	usage.RefuseLeadingZeros(root)
	return root
}

// addSetFlag adds --set, which overrides keys of a configuration.
func addSetFlag(cmd *cobra.Command, set *[]string) {
	cmd.Flags().StringArrayVar(set, "set", nil, "override a key of the configuration: `KEY=VALUE`; repeatable")
}

// requireFlags makes a command refuse to run without these flags.
func requireFlags(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // no such flag
		}
	}
}

// withSubcommands makes a command print its help where no subcommand is given.
func withSubcommands(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(commands...)
	return cmd
}
