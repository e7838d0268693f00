package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"optibfm/controller"
	"optibfm/internal/ipc"
	"optibfm/internal/setup"
	"optibfm/internal/taskstore"
	"optibfm/posterior"
)

// Each request allocates memory, which this process does not collect. hostPause is the time between
// two requests of the host. The callers of the control socket may make callerBurst requests, then
// one each callerEvery.
const (
	hostPause   = 2 * time.Second
	callerEvery = time.Second
	callerBurst = 8
)

var (
	errSwitchesWait = errors.New("the host process has not recorded the last switches; try again")
	errTooSoon      = errors.New("too many switches of the task; try again in a second")
)

// taskSwitch changes the task of a run.
type taskSwitch struct {
	session *setup.Session // read only
	mailbox *commandMailbox
	timeout time.Duration // of the control thread
	pause   time.Duration // of the host, between two requests
	limit   *rate.Limiter // of the callers of the control socket
	busy    sync.Mutex
	file    []byte // scratch, of the caller that holds busy
}

// execute runs the line of a switch or of a new task. It checks the task and passes it to the
// control thread.
func (s *taskSwitch) execute(line string, file io.Reader) (known bool, err error) {
	announced, switches := strings.CutPrefix(line, ipc.SwitchWord)
	if !switches && line != ipc.NewWord {
		return false, nil
	}
	if !s.limit.Allow() {
		return true, errTooSoon
	}
	if switches {
		return true, s.switchTask(announced, file)
	}
	k := s.session.File.Controller
	if err := setup.CheckFollowsBelief(k); err != nil {
		return true, err
	}
	prior, err := k.NewBelief(s.session.Shape().Latent)
	if err != nil {
		return true, err
	}
	return true, s.pass(ipc.NewTask, prior, controller.NoiseState{})
}

func (s *taskSwitch) switchTask(announced string, file io.Reader) error {
	task, err := s.readTask(announced, file)
	if err != nil {
		return err
	}
	if err := setup.CheckSwitch(task, s.session.File.Controller, s.session.Model); err != nil {
		return err
	}
	return s.pass(task.Name, task.Belief.Belief, task.Belief.Noise)
}

func (s *taskSwitch) pass(name string, belief *posterior.Belief, noise controller.NoiseState) error {
	b := &ipc.TaskBelief{
		Name: name, State: make([]float64, posterior.StateLen(belief.Dim())), Hash: belief.Hash(), Noise: noise,
	}
	belief.State(b.State)
	return s.mailbox.switchTo(b, s.timeout)
}

// serveHost answers the requests of the host until it ends. They have the rules of the control
// socket, and the host can ask for nothing else: it cannot arm the robot. A panic here stops the
// robot in the next tick.
func (s *taskSwitch) serveHost(c net.Conn) {
	defer s.mailbox.catchPanic()
	in := bufio.NewReaderSize(c, maxCommandBytes)
	for {
		text, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		line := strings.TrimSpace(string(text))
		file := io.LimitReader(in, announcedBytes(line))
		known, refusal := s.execute(line, file)
		if !known {
			refusal = errNotForHost
		}
		answer := ""
		if refusal != nil {
			answer = refusal.Error()
		}
		reply, err := json.Marshal(answer)
		if err != nil {
			panic(err) // text
		}
		_, unread := io.Copy(io.Discard, file) // of a refused task
		_, unsent := c.Write(append(reply, '\n'))
		if unread != nil || unsent != nil {
			return
		}
		time.Sleep(s.pause)
	}
}

var errNotForHost = errors.New("the host process may only switch the task")

// announcedBytes is the length of the file behind the line of a switch.
func announcedBytes(line string) int64 {
	n, _ := strconv.ParseUint(line[strings.LastIndexByte(line, ' ')+1:], 10, 31) // execute refuses the others
	return int64(n)
}

// maxTaskBytes bounds the file of a task of a shape: its belief, z as text, and other text.
func maxTaskBytes(shape controller.Shape) int { return 64<<10 + 32*shape.Latent + 8*shape.StateLen() }

func (s *taskSwitch) readTask(announced string, file io.Reader) (t taskstore.Task, err error) {
	most := maxTaskBytes(s.session.Shape())
	name, size, _ := strings.Cut(announced, " ")
	if err := taskstore.CheckName(name); err != nil {
		return t, err
	}
	n, err := strconv.Atoi(size)
	if err != nil || n < 1 || n > most {
		return t, fmt.Errorf("the task %s has %.20q bytes, want 1 to %d; use a task of the run's model", name, size, most)
	}
	s.busy.Lock()
	defer s.busy.Unlock()
	if s.file == nil {
		s.file = make([]byte, most)
	}
	data := s.file[:n]
	if _, err := io.ReadFull(file, data); err != nil {
		return t, fmt.Errorf("reading the task %s: %w; try again", name, err)
	}
	if t, err = taskstore.Parse(name, data); err != nil {
		return t, fmt.Errorf("the task %s: %w", name, err)
	}
	return t, nil
}

// switchTask replaces the belief on the control thread. The next tick has FlagSwitched.
func (c *controlProcess) switchTask(b *ipc.TaskBelief) error {
	if !c.link.HasSwitchRoom() {
		return errSwitchesWait
	}
	err := c.agent.SwitchTask(b.State, b.Noise)
	if err == nil {
		c.switched = b
	}
	return err
}

// newFormer returns room for the belief before a changed task.
func newFormer(s controller.Shape) ipc.TaskBelief {
	return ipc.TaskBelief{Name: ipc.FormerTask, State: make([]float64, s.StateLen())}
}

// recordSwitch sends the belief of a switch to the log, before its tick, and the belief before a
// changed task to the host. It allocates nothing.
func (c *controlProcess) recordSwitch(t *controller.Tick) error {
	if b := c.switched; b != nil {
		c.switched = nil
		if err := c.link.PushSwitch(t.Index, b); err != nil {
			return err
		}
	}
	if !t.Flags.Has(controller.FlagKeepable) || !c.link.HasSwitchRoom() {
		return nil
	}
	var ok bool
	if c.former.Noise, c.former.Hash, ok = c.agent.Learner().Former(c.former.State); !ok {
		return nil
	}
	return c.link.PushSwitch(t.Index, &c.former)
}
