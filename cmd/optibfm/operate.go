package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/internal/control"
)

// defaultSocket is where `optibfm config init robot` puts the control socket.
const defaultSocket = "/run/optibfm/control.sock"

// newOperateCommands are what an operator says to a robot that runs.
func newOperateCommands() []*cobra.Command {
	return []*cobra.Command{
		newOperateCommand("arm", "Let the robot move",
			"From the next tick on the robot's actions go to its actuators. Keep clear of it. A robot\nthat is stopped is reset first."),
		newOperateCommand("disarm", "Bring the robot to rest, in order",
			"The actuators go to their disarmed output, where the robot has one, else to their failsafe\noutput. It can be armed again at once."),
		newOperateCommand("stop", "Stop the robot now",
			"The actuators go to their failsafe output and the stop latches. This is no emergency stop:\nit passes through a computer. Use the button that cuts the power."),
		newOperateCommand("reset", "Clear a stop, when its cause is gone",
			"The robot is then disarmed. A reset never moves it: arm it to go on."),
		newOperateCommand("status", "Say how the robot is",
			"Whether it is disarmed, armed or stopped, and why; the tick, the age of its plan and how\nlate its control thread wakes."),
	}
}

func newOperateCommand(word, short, long string) *cobra.Command {
	var socket, config string
	var asJSON bool
	cmd := &cobra.Command{
		Use: word, Short: short, Args: cobra.NoArgs,
		Long: short + ".\n\n" + long,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := socketOf(socket, config)
			if err != nil {
				return err
			}
			return control.SendAndPrint(cmd.OutOrStdout(), path, word, asJSON)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&socket, "socket", "", "the robot's safety.socket (default: the configuration's, or "+defaultSocket+")")
	fl.StringVarP(&config, "config", "c", "", "the `CONFIG` that the robot runs with")
	fl.BoolVar(&asJSON, "json", false, "print the robot's answer as JSON")
	return cmd
}

// socketOf finds the robot's socket.
func socketOf(socket, config string) (string, error) {
	if socket != "" || config == "" {
		return cmp.Or(socket, defaultSocket), nil
	}
	file, err := configs.Load(config)
	if err != nil {
		return "", err
	}
	if file.Safety.Socket == "" {
		return "", fmt.Errorf("safety.socket: %s: it is empty: this robot takes no word: give it one", config)
	}
	return file.Safety.Socket, nil
}
