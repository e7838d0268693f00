package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"optibfm/configs"
)

// defaultSocket is where `optibfm config init robot` puts the control socket.
const defaultSocket = "/run/optibfm/control.sock"

// operatePatience is longer than any act may take.
const operatePatience = 30 * time.Second

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
			return operate(cmd.OutOrStdout(), path, word, asJSON)
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

// operate says a word to the robot and prints its answer.
func operate(out io.Writer, path, word string, asJSON bool) error {
	line, err := exchange(path, word)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", word, path, err)
	}
	var got condition
	if err := json.Unmarshal(line, &got); err != nil {
		return fmt.Errorf("%s: %s: the answer is no JSON (%w): is it an optibfm that listens there?", word, path, err)
	}
	if asJSON {
		_, err = out.Write(line)
	} else {
		_, err = io.WriteString(out, got.text())
	}
	if err == nil && got.Error != "" {
		err = fmt.Errorf("%s: refused: %s", word, got.Error)
	}
	return err
}

func exchange(path, word string) ([]byte, error) {
	c, err := net.DialTimeout("unix", path, operatePatience)
	if err != nil {
		return nil, fmt.Errorf("%w: does the robot run, and may you talk to it (safety.socket, safety.group)?", err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(operatePatience)); err != nil {
		return nil, err
	}
	// Whoever may not speak may be told so before he has spoken.
	if _, err := io.WriteString(c, word+"\n"); err != nil && !errors.Is(err, syscall.EPIPE) {
		return nil, err
	}
	line, err := bufio.NewReader(io.LimitReader(c, 64<<10)).ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		err = errors.New("the robot ended the connection without an answer: try again")
	}
	return line, err
}

// text is a condition for people. What comes from elsewhere cannot write to the
// terminal as it likes.
func (c *condition) text() string {
	s := fmt.Sprintf("%s is %s", clean(c.Robot), clean(c.State))
	if c.Cause != "" {
		s += ": " + clean(c.Cause)
	}
	if c.Found != "" {
		s += " (" + clean(c.Found) + ")"
	}
	if c.Present != "" {
		s += "\nnow: " + clean(c.Present)
	}
	age := "no plan yet"
	if c.Planned {
		age = fmt.Sprintf("z is %.0f ms old", c.ZAgeMS)
	}
	return s + fmt.Sprintf("\ntick %d, %s, %.0f µs late, at most %.0f, %d skipped\ndeadman: %s\n",
		c.Tick, age, c.LateUS, c.WorstUS, c.Skipped, clean(c.Deadman))
}
