package cli

import (
	"github.com/spf13/cobra"

	"optibfm/internal/cli/sensing"
	"optibfm/internal/ipc"
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

A run must not be active. Servos on a bus that are limp stay limp. Other drivers
may switch outputs off when they open the robot, and at the end a halt gives
outputs their failsafe value, at which a hobby servo jumps (docs/safety.md): cut
the power of such actuators.`,
		Example: `  optibfm sense --config myarm.yaml
  optibfm sense --config myarm.yaml > ranges.txt     # the last table only`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := ipc.UntilSignal(cmd.Context(), ipc.StopSignals...)
			defer stop()
			return sensing.Run(ctx, config, set, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVarP(&config, "config", "c", "", "the robot's `CONFIG`: a file, or a name (optibfm config list)")
	addSetFlag(cmd, &set)
	requireFlags(cmd, "config")
	return cmd
}
