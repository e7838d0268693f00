package cli

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/internal/cli/halt"
	"optibfm/internal/ipc"
	"optibfm/internal/journal"
	"optibfm/internal/plaintext"
)

// haltTimeout bounds a halt. The slowest device is a bridge whose server must answer.
const haltTimeout = 20 * time.Second

// serviceResult is the variable in which systemd gives ExecStopPost= the result of a
// service: systemd.exec(5).
const serviceResult = "SERVICE_RESULT"

func newHaltCommand() *cobra.Command {
	var config string
	var set []string
	var ifFailed bool
	cmd := &cobra.Command{
		Use: "halt", Args: cobra.NoArgs,
		Short: "Halt a robot whose controller died",
		Long: `Stop the robot of a configuration, for example after its control process was
killed. Servos and CAN motors that follow positions keep their goals, other
actuators get their failsafe output. Each device with outputs is halted
separately, so a broken device does not keep the others from being halted. Servos, CAN motors and
boards that do not answer receive the commands anyway.

The lines after "halted:" name devices that do not hold their goal or failsafe output.
Servos without torque and CAN motors out of motor mode are limp.

The command refuses while a control process holds the robot: run optibfm stop. It
detects the process at safety.socket; without that key it warns and continues. It
ends after 20 s. It is not an emergency stop: use the button that cuts the power.`,
		Example: "  optibfm halt --config /etc/optibfm/robot.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if config == "" {
				return errors.New("halt: --config is missing; name the configuration that the robot ran with")
			}
			if ifFailed && os.Getenv(serviceResult) == "success" {
				return nil // the control process halted the robot
			}
			file, err := configs.Load(config, set...)
			if err != nil {
				return err
			}
			ctx, stop := ipc.UntilSignal(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			ctx, cancel := context.WithTimeout(ctx, haltTimeout)
			defer cancel()
			warnings := plaintext.NewWriter(journal.For(cmd.ErrOrStderr(), journal.Warning))
			return halt.Robot(ctx, cmd.OutOrStdout(), warnings, file)
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&config, "config", "c", "", "the `CONFIG` that the robot ran with; required")
	addSetFlag(cmd, &set)
	fl.BoolVar(&ifFailed, "if-failed", false, "do nothing if systemd reports success in "+serviceResult)
	return cmd
}
