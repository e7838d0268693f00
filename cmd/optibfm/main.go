// Command optibfm lets a robot with a behaviour foundation model find out from
// a few reward labels what its operator wants. Start with `optibfm run`.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"optibfm/flightlog"
)

func main() {
	if err := NewRootCommand().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "optibfm:", err)
		os.Exit(exitStatus(err))
	}
}

func exitStatus(err error) int {
	if errors.Is(err, flightlog.ErrDamaged) {
		return exitDamaged
	}
	return 1
}

func NewRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "optibfm",
		Short: "A robot finds out its task from a few reward labels",
		Long: `optibfm drives a robot that has a behaviour foundation model, learns from reward
labels which task its operator wants, and asks for a label only when one would
teach it something.

  optibfm run                       the built-in rover and a simulated operator
  optibfm run --operator keyboard   you are the operator
  optibfm arm                       let a real robot move; also disarm, stop, reset, status
  optibfm replay FILE               verify and explain what a log says`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		newRunCommand(), newHostCommand(), newReplayCommand(), newLogCommand(),
		newModelCommand(), newInferCommand(), newConfigCommand(),
		newLabelCommand(), newCalibrateCommand(), newJitterCommand(), newDoctorCommand(), newVersionCommand(),
	)
	root.AddCommand(newOperateCommands()...)
	root.AddCommand(newHaltCommand())
	return root
}
