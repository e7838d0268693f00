package ipc

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// The lines that change the task of a running robot, at the control socket and at the host's own
// socket.
const (
	// SwitchWord begins the line "switch NAME BYTES", followed by the bytes of the task's file.
	SwitchWord = "switch "
	// NewWord begins a task without labels.
	NewWord = "new"
)

// NewTask is the name of a task without labels in the log. No saved task can have it.
const NewTask = "(new)"

// FormerTask is the name of the belief before a changed task on its way to the host. No saved task
// can have it.
const FormerTask = "(former)"

// changeTimeout is longer than the control process takes to change the task.
const changeTimeout = 30 * time.Second

// TaskChanger asks the control process for another task. Several goroutines may use it.
type TaskChanger struct {
	mu   sync.Mutex
	conn net.Conn
	in   *bufio.Reader
}

// NewTaskChanger returns a changer that uses the host's end of Sockets. It closes host.
func NewTaskChanger(host *os.File) (*TaskChanger, error) {
	defer host.Close()
	conn, err := net.FileConn(host)
	if err != nil {
		return nil, fmt.Errorf("host: socket of the tasks: %w", err)
	}
	return &TaskChanger{conn: conn, in: bufio.NewReader(conn)}, nil
}

// Switch lets the robot switch to a task with the bytes of its file.
func (c *TaskChanger) Switch(name string, file []byte) error {
	return c.ask(fmt.Appendf(nil, "%s%s %d\n%s", SwitchWord, name, len(file), file))
}

// New lets the robot begin a task without labels.
func (c *TaskChanger) New() error { return c.ask([]byte(NewWord + "\n")) }

// ask sends a request and returns the refusal. The answer is a line with a JSON string, "" without
// a refusal.
func (c *TaskChanger) ask(request []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.conn.SetDeadline(time.Now().Add(changeTimeout)); err != nil {
		return err
	}
	_, err := c.conn.Write(request)
	var line []byte
	if err == nil {
		line, err = c.in.ReadBytes('\n')
	}
	var refusal string
	if err == nil {
		err = json.Unmarshal(line, &refusal)
	}
	if err != nil {
		_ = c.conn.Close() // an answer may still come
		return fmt.Errorf("host: the control process does not answer: %w; restart the run", err)
	}
	if refusal != "" {
		return errors.New(refusal)
	}
	return nil
}

// Close ends the requests.
func (c *TaskChanger) Close() error { return c.conn.Close() }
