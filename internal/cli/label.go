package cli

import (
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"optibfm/internal/cli/binding"
)

func newLabelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "label",
		Short:   "Set up the device that gives labels",
		Example: "  optibfm label bind --out pedal.yaml",
	}
	return withSubcommands(cmd, newLabelBind())
}

func newLabelBind() *cobra.Command {
	var o binding.Options
	cmd := &cobra.Command{
		Use:   "bind",
		Short: "Ask for a press of each button, and write the configuration that binds it",
		Long: `Listen to all input devices, ask for a press of the button of each role, and print
the section of a configuration that binds these buttons. The first press selects
the device. To leave out a button other than good and bad, wait until its time is over.`,
		Example: `  optibfm label bind                         a pedal, clicker, remote or gamepad
  optibfm label bind --axis                  also a stick or slider, for a stream of labels
  optibfm label bind --roles good,bad --out pedal.yaml
  optibfm label bind --roles good,bad,better,worse,goal,undo`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return binding.Run(ctx, o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&o.Device, "device", "", "listen only to devices with this in their name")
	fl.StringSliceVar(&o.Roles, "roles", []string{"good", "bad", "cant_tell", "undo"},
		"the buttons to bind, of "+strings.Join(binding.RoleNames(), ", "))
	fl.BoolVar(&o.Axis, "axis", false, "bind a stick, slider or analogue pedal too")
	fl.DurationVar(&o.Timeout, "timeout", 20*time.Second, "the time for each press")
	fl.StringVarP(&o.Out, "out", "o", "", "file to write, which must not exist (default: standard output)")
	return cmd
}
