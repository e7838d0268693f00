package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"optibfm/internal/link"
)

// operatePatience is longer than any act may take.
const operatePatience = 30 * time.Second

// Operate says a word to the robot and prints its answer.
func SendAndPrint(out io.Writer, path, word string, asJSON bool) error {
	line, err := Send(path, word)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", word, path, err)
	}
	var got link.Status
	if err := json.Unmarshal(line, &got); err != nil {
		return fmt.Errorf("%s: %s: the answer is no JSON (%w): is it an optibfm that listens there?", word, path, err)
	}
	if asJSON {
		_, err = out.Write(line)
	} else {
		_, err = io.WriteString(out, got.Text())
	}
	if err == nil && got.Error != "" {
		err = fmt.Errorf("%s: refused: %s", word, got.Error)
	}
	return err
}

func Send(path, word string) ([]byte, error) {
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
