package control

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"optibfm/controller"
	"optibfm/internal/link"
	"optibfm/internal/setup"
	"optibfm/internal/taskstore"
	"optibfm/posterior"
)

// switchWord begins the line of a switch of the task: "switch NAME BYTES", followed by the bytes of the task's file.
const switchWord = "switch "

var errSwitchesWait = errors.New("the host process has not recorded the last switches; try again")

// switchTask reads a task behind the line of a switch, checks it and passes it to the control thread.
func (s *Server) switchTask(announced string, file io.Reader) error {
	task, err := readTask(announced, file, maxTaskBytes(s.session.Shape()))
	if err != nil {
		return err
	}
	if err := setup.CheckSwitch(task, s.session.File.Controller, s.session.Model); err != nil {
		return err
	}
	belief := task.Belief.Belief
	b := &link.TaskBelief{
		Name: task.Name, State: make([]float64, posterior.StateLen(belief.Dim())), Hash: belief.Hash(),
		Noise: task.Belief.Noise,
	}
	belief.State(b.State)
	s.mailbox.task.Store(b)
	return s.mailbox.call(commandSwitch, s.replyTimeout())
}

// maxTaskBytes bounds the file of a task of a shape: its belief and twice a header with text and z.
func maxTaskBytes(shape controller.Shape) int { return 1<<20 + 8*shape.StateLen() }

func readTask(announced string, file io.Reader, most int) (t taskstore.Task, err error) {
	name, size, _ := strings.Cut(announced, " ")
	if err := taskstore.CheckName(name); err != nil {
		return t, err
	}
	n, err := strconv.Atoi(size)
	if err != nil || n < 1 || n > most {
		return t, fmt.Errorf("the task %s has %.20q bytes, want 1 to %d; use a task of the run's model", name, size, most)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(file, data); err != nil {
		return t, fmt.Errorf("reading the task %s: %w; try again", name, err)
	}
	if t, err = taskstore.Parse(name, data); err != nil {
		return t, fmt.Errorf("the task %s: %w", name, err)
	}
	return t, nil
}

// switchTask replaces the belief on the control thread. The next tick has FlagSwitched.
func (c *controlProcess) switchTask(b *link.TaskBelief) error {
	if !c.link.HasSwitchRoom() {
		return errSwitchesWait
	}
	err := c.agent.SwitchTask(b.State, b.Noise)
	if err == nil {
		c.switched = b
	}
	return err
}

// recordSwitch sends the belief of a switch to the log, before its tick. It allocates nothing.
func (c *controlProcess) recordSwitch(t *controller.Tick) error {
	if c.switched == nil {
		return nil
	}
	b := c.switched
	c.switched = nil
	return c.link.PushSwitch(t.Index, b)
}
