package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/internal/control"
)

// defaultSocket is safety.socket of `optibfm config init robot`.
const defaultSocket = "/run/optibfm/control.sock"

// newOperateCommands returns the commands that control a running robot.
func newOperateCommands() []*cobra.Command {
	return []*cobra.Command{
		newOperateCommand("arm", "Let the robot move",
			"From the next tick on, the robot's actions go to its actuators. Keep clear of the robot.\n"+
				"Reset a stopped robot first."),
		newOperateCommand("disarm", "Stop the robot in an orderly way",
			"The actuators go to their disarmed output, or to their failsafe output where the robot has\n"+
				"no disarmed output. You can arm the robot again at once."),
		newOperateCommand("stop", "Stop the robot now",
			"The actuators go to their failsafe output, and the stop latches. This is not an emergency\n"+
				"stop, because it passes through a computer: use the button that cuts the power."),
		newOperateCommand("reset", "Clear a stop after its cause is gone",
			"The robot is then disarmed. A reset never moves it."),
		newOperateCommand("status", "Print the state of the robot",
			"Print whether it is disarmed, armed or stopped, with the cause of a stop, the tick, the age\n"+
				"of its plan and the lateness of its control thread."),
	}
}

func newOperateCommand(word, short, long string) *cobra.Command {
	var socket, config string
	var asJSON bool
	cmd := &cobra.Command{
		Use: word, Short: short, Args: cobra.NoArgs,
		Long: short + ".\n\n" + long,
		Example: "  optibfm " + word + "                   the robot at " + defaultSocket + "\n" +
			"  optibfm " + word + " -c myrobot.yaml   the robot that runs with this configuration",
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := findSocket(socket, config)
			if err != nil {
				return err
			}
			return control.SendAndPrint(cmd.OutOrStdout(), path, word, asJSON)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&socket, "socket", "",
		"the robot's safety.socket (default: the configuration's, or "+defaultSocket+")")
	fl.StringVarP(&config, "config", "c", "", "the `CONFIG` that the robot runs with")
	fl.BoolVar(&asJSON, "json", false, "print the robot's answer as JSON")
	return cmd
}

// findSocket returns the path of the robot's control socket.
func findSocket(socket, config string) (string, error) {
	if socket != "" {
		return socket, nil
	}
	if config == "" {
		file, err := configs.Load(configs.DefaultName())
		if err != nil { // a program that registers no default configuration
			return defaultSocket, nil
		}
		return cmp.Or(file.Safety.Socket, defaultSocket), nil
	}
	file, err := configs.Load(config)
	if err != nil {
		return "", err
	}
	if file.Safety.Socket == "" {
		return "", fmt.Errorf("%s: safety.socket is empty, so this robot accepts no commands; set it", config)
	}
	return file.Safety.Socket, nil
}
