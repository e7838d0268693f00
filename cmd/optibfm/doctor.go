package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"optibfm/internal/doctor"
)

func newDoctorCommand() *cobra.Command {
	f := doctor.DoctorFlags{Seconds: 10}
	cmd := &cobra.Command{
		Use: "doctor", Args: cobra.NoArgs,
		Short: "Check on the spot whether this computer and user can run a robot",
		Long: `Look at everything that a run needs, as the user that will run it, and say of
each thing whether it is in order (ok, warn, fail) and how to mend it. Nothing
fails: exit status 0; something does: 1.

Nothing is moved and nothing is armed. Devices are looked at without being
opened, but for these: one register of each I2C device is read, GPIO chips are
asked about their lines, the project's Python bridges are run with --help, and the
console's port is listened on for a moment. The log's folder gets a hidden folder,
which is removed. Best while no run goes on.

The warnings with a star are failures where loop.posture is strict. Without a
configuration, what needs none is checked, for the default loop.

The wake-ups are measured for --seconds with the loop's posture, in turns with
cyclictest (Debian: rt-tests), which gets as long again.`,
		Example: `  sudo -u optibfm optibfm doctor --config /etc/optibfm/robot.yaml
  optibfm doctor --seconds 60
  optibfm doctor --config rover --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return doctor.RunDoctor(ctx, f, doctor.ThisMachine(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.Config, "config", "c", "", "a `CONFIG`: a file, or a name (optibfm config list)")
	fl.StringArrayVar(&f.Set, "set", nil, "override a key of the configuration: `KEY=VALUE`; repeatable")
	fl.BoolVar(&f.JSON, "json", false, "print JSON")
	fl.Float64Var(&f.Seconds, "seconds", f.Seconds, "time to measure wake-ups, 0 to 3600; 0: not")
	return cmd
}
