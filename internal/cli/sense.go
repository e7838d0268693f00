package cli

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"optibfm/internal/cli/sensing"
)

func newSenseCommand() *cobra.Command {
	var config string
	var set []string
	cmd := &cobra.Command{
		Use: "sense", Args: cobra.NoArgs,
		Short: "Show what a robot senses while you move it by hand",
		Long: `Show the readings of a robot's sensors, with the least and the greatest value of
each channel, until Ctrl-C. It needs no model and never arms the robot: move the
joints by hand through their ranges, choose the limits of observation and action
from the values, and check units and signs.

A run must not be active. Opening the robot changes no output. At the end the
robot is halted: a servo with torque keeps holding its position, other outputs
get their failsafe value.`,
		Example: `  optibfm sense --config myarm.yaml
  optibfm sense --config myarm.yaml > ranges.txt     # the last table only`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return sensing.Run(ctx, config, set, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&config, "config", "c", "", "the robot's `CONFIG`: a file, or a name (optibfm config list)")
	addSetFlag(cmd, &set)
	requireFlags(cmd, "config")
	return cmd
}
