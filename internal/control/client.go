package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"syscall"
	"time"

	"optibfm/internal/ipc"
)

// replyTimeout is longer than any command takes.
const replyTimeout = 30 * time.Second

// SendAndPrint sends a command to the control socket at path and prints the status in the reply, as
// text or as a line of JSON. A refused command is an error.
func SendAndPrint(out io.Writer, path, command string, asJSON bool) error {
	line, err := Send(path, command)
	return printReply(out, path, command, line, err, asJSON)
}

// SwitchTask sends the file of a task to the control socket at path, for the running robot to
// switch to it, and prints the status in the reply.
func SwitchTask(out io.Writer, path, name string, file []byte, asJSON bool) error {
	line, err := exchange(path, fmt.Sprintf("%s%s %d\n%s", ipc.SwitchWord, name, len(file), file))
	return printReply(out, path, "task switch", line, err, asJSON)
}

// NewTask lets the running robot of the control socket at path begin a task without labels, and
// prints the status in the reply.
func NewTask(out io.Writer, path string, asJSON bool) error {
	line, err := Send(path, ipc.NewWord)
	return printReply(out, path, "task new", line, err, asJSON)
}

func printReply(out io.Writer, path, command string, line []byte, err error, asJSON bool) error {
	if err != nil {
		return fmt.Errorf("%s: %s: %w", command, path, err)
	}
	var got ipc.Status
	if err := json.Unmarshal(line, &got); err != nil {
		return fmt.Errorf("%s: %s: the reply is not JSON: %w; check that optibfm listens there", command, path, err)
	}
	if asJSON {
		_, err = out.Write(line)
	} else {
		_, err = io.WriteString(out, got.Text())
	}
	if err == nil && got.Error != "" {
		err = fmt.Errorf("%s: refused: %s", command, got.Error)
	}
	return err
}

// Send sends a command to the control socket at path and returns the reply, a line of JSON
// ([ipc.Status]). A stop has its own socket, where it waits for no other caller.
func Send(path, command string) ([]byte, error) {
	if command == "stop" {
		line, err := exchange(StopPath(path), "")
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) {
			return line, err
		}
	} // else an earlier version of the program runs there, or none
	return exchange(path, command+"\n")
}

// dialAgain connects to a socket, and tries again while its queue of callers is full.
func dialAgain(path string) (net.Conn, error) {
	const pause = 10 * time.Millisecond
	for end := time.Now().Add(replyTimeout); ; time.Sleep(pause) {
		c, err := net.DialTimeout("unix", path, replyTimeout)
		if !errors.Is(err, syscall.EAGAIN) || time.Now().After(end) {
			return c, err
		}
	}
}

func exchange(path, request string) ([]byte, error) {
	c, err := dialAgain(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w; become root, the user of the program, or a member of safety.group", err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; check that the robot runs, and safety.socket", err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return nil, err
	}
	// The server may refuse a caller before it reads the command.
	_, err = io.WriteString(c, request)
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		return nil, err
	}
	line, err := bufio.NewReader(io.LimitReader(c, 64<<10)).ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		err = errors.New("the robot closed the connection without a reply; try again")
	}
	return line, err
}
