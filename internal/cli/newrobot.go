package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"optibfm/internal/cli/newrobot"
)

func newNewRobotCommand() *cobra.Command {
	var inGo bool
	var repository, gymnasium string
	cmd := &cobra.Command{
		Use:   "new-robot NAME",
		Short: "Write a folder for your own robot: driver, configuration, scripts to train its model",
		Long: `Write the folder NAME in the current folder: robot.py, a driver in Python with a toy
robot that runs unchanged; robot.yaml, its configuration; record.sh and train.sh,
which train its model; and README.md with the steps.

With --go: write a Go program instead, with a simulated vehicle that runs unchanged. It
has all commands of optibfm. It needs Go and the repository.

With --gymnasium: write the configuration of an environment of Gymnasium and the scripts
that record it and train its model. It needs python3 with gymnasium, and the repository.`,
		Example: "  optibfm new-robot myrobot\n  optibfm new-robot --go myrobot\n" +
			"  optibfm new-robot pendulum --gymnasium Pendulum-v1",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case gymnasium == "" && cmd.Flags().Changed("gymnasium"):
				return errors.New("new-robot: --gymnasium without an environment; add its id, such as Pendulum-v1")
			case inGo && gymnasium != "":
				return errors.New("new-robot: --go and --gymnasium together; choose one")
			case gymnasium != "":
				return newrobot.WriteGymnasium(cmd.Context(), cmd.OutOrStdout(), args[0], gymnasium, repository)
			case inGo:
				return newrobot.WriteGo(cmd.OutOrStdout(), args[0], repository)
			}
			if repository != "" {
				return errors.New("new-robot: --repository without --go or --gymnasium; add one")
			}
			return newrobot.Write(cmd.OutOrStdout(), args[0])
		},
	}
	cmd.Flags().BoolVar(&inGo, "go", false, "write a Go program")
	cmd.Flags().StringVar(&gymnasium, "gymnasium", "", "write the configuration of the environment `ENV_ID`")
	cmd.Flags().StringVar(&repository, "repository", "",
		"with --go or --gymnasium: the `FOLDER` of optibfm's repository (default: the one around the current folder)")
	return cmd
}
