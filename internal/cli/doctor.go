package cli

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"optibfm/internal/doctor"
)

func newDoctorCommand() *cobra.Command {
	o := doctor.Options{Seconds: 10}
	cmd := &cobra.Command{
		Use: "doctor", Args: cobra.NoArgs,
		Short: "Check whether this computer and user can run a robot",
		Long: `Check everything that a run needs, as the user that will run it. Each finding has
a status (ok, warn, fail) and, if needed, a fix. Exit status: 0 without failures,
1 with failures.

The command moves and arms nothing. It examines devices without opening them, with
these exceptions: it reads one register of each I2C device, asks GPIO chips about
their lines, runs the project's Python bridges with --help, and listens on the
console's port for a moment. It creates a file in the log folder and removes it.
End a run first.

Warnings with a star are failures where loop.posture is strict. Without a
configuration, the command checks the computer for the default loop.

The latency of wake-ups is measured for --seconds with the loop's posture.`,
		Example: `  sudo -u optibfm optibfm doctor --config /etc/optibfm/robot.yaml
  optibfm doctor --seconds 60
  optibfm doctor --config rover --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return doctor.Run(ctx, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.Config, "config", "c", "", "a `CONFIG`: a file, or a name (optibfm config list)")
	f.StringArrayVar(&o.Set, "set", nil, "override a key of the configuration: `KEY=VALUE`; repeatable")
	f.BoolVar(&o.LAN, "lan", false, "check the console as \"optibfm run --lan\" opens it")
	f.BoolVar(&o.JSON, "json", false, "print JSON")
	f.Float64Var(&o.Seconds, "seconds", o.Seconds, "duration of the latency measurement, 0 to 3600; 0: none")
	return cmd
}
