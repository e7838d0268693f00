package cli

import (
	"github.com/spf13/cobra"

	"optibfm/internal/newrobot"
)

func newNewRobotCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "new-robot NAME",
		Short: "Write a folder for your own robot: driver, configuration, scripts to train its model",
		Long: `Write the folder NAME in the current folder: robot.py, a driver in Python with a toy
robot that runs unchanged; robot.yaml, its configuration; record.sh and train.sh,
which train its model; and README.md with the steps.`,
		Example: "  optibfm new-robot myrobot",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return newrobot.Write(cmd.OutOrStdout(), args[0]) },
	}
}
