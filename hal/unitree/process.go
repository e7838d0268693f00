package unitree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// Program is the name of the program that runs the writers.
const Program = "optibfm-unitree"

// The roles of the processes. Those of the writers are their subcommands.
const (
	RoleControl = "control"
	RolePrimary = "writer"
	RoleStandby = "standby"
)

// SegmentDescriptor is the descriptor of the shared memory in a writer process. Its standard input
// has a line with its [WriterConfig], and then ends when the control process ends.
const SegmentDescriptor = 3

// WriterConfig configures a writer process.
type WriterConfig struct {
	Config Config
	Period time.Duration // of goals
}

// writersStart is the time until a writer has joined the network. Tests change it.
var writersStart = 10 * time.Second

const writersEnd = 8 * time.Second // until a writer has damped and ended

// FindProgram returns the path of optibfm-unitree.
func FindProgram(configured string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	if own, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(own), Program)
		if _, err := os.Stat(beside); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath(Program)
	if err != nil {
		return "", fmt.Errorf("unitree: writer: %w; install %s beside this program "+
			"(go build -o DIR ./cmd/%[2]s), or set robot.unitree.writer", err, Program)
	}
	return path, nil
}

// writer is a writer process. It survives this process, so that it can damp the motors.
type writer struct {
	role     string
	cmd      *exec.Cmd
	lifeline *os.File
	ended    chan struct{} // closed when err is set
	err      error
}

// writers are the processes of a robot.
type writers []*writer

// startWriters starts both writers and waits until they run.
func startWriters(ctx context.Context, c Config, shared *Shared, period time.Duration) (writers, error) {
	program, err := FindProgram(c.Writer)
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(WriterConfig{c, period})
	if err != nil {
		return nil, fmt.Errorf("unitree: %w", err)
	}
	var all writers
	for _, role := range []string{RoleStandby, RolePrimary} {
		w, err := startWriter(program, role, append(line, '\n'), shared.File())
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		all = append(all, w)
		if err := w.awaitBeat(ctx, shared.beat(role)); err != nil {
			return nil, errors.Join(err, all.Close())
		}
	}
	return all, nil
}

func (s *Shared) beat(role string) *atomic.Uint64 {
	if role == RoleStandby {
		return s.StandbyBeat
	}
	return s.PrimaryBeat
}

func startWriter(program, role string, config []byte, segment *os.File) (*writer, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("unitree: %w", err)
	}
	defer read.Close()
	w := &writer{role: role, cmd: exec.Command(program, role), lifeline: write, ended: make(chan struct{})}
	w.cmd.Stdin, w.cmd.Stdout, w.cmd.Stderr = read, os.Stderr, os.Stderr
	w.cmd.ExtraFiles = []*os.File{segment}
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no signal of the terminal reaches it
	if err := w.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("unitree: %s: %w", role, err), write.Close())
	}
	go func() {
		w.err = w.cmd.Wait()
		close(w.ended)
	}()
	if _, err := write.Write(config); err != nil { // it has ended
		return nil, errors.Join(w.failure(), write.Close())
	}
	return w, nil
}

// failure waits for a writer that ends unasked and returns the reason.
func (w *writer) failure() error {
	select {
	case <-w.ended:
		return fmt.Errorf("unitree: the %s ended: %w; see its message above", w.role, w.err)
	case <-time.After(writersEnd):
		return fmt.Errorf("unitree: the %s does not answer", w.role)
	}
}

// awaitBeat waits for the first beat of a writer.
func (w *writer) awaitBeat(ctx context.Context, beat *atomic.Uint64) error {
	timeout := time.After(writersStart)
	for beat.Load() == 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("unitree: waiting for the %s: %w", w.role, context.Cause(ctx))
		case <-timeout:
			return fmt.Errorf("unitree: the %s did not start within %v", w.role, writersStart)
		case <-w.ended:
			return w.failure()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// Close lets the writers damp the motors, if they ever commanded them, and end. It leaves a writer
// that does not end: nothing is gained by killing what damps a robot.
func (ws writers) Close() error {
	for _, w := range ws {
		_ = w.lifeline.Close() // it may be closed
	}
	var errs []error
	timeout := time.After(writersEnd)
	for _, w := range ws {
		select {
		case <-w.ended:
			if w.err != nil {
				errs = append(errs, fmt.Errorf("unitree: the %s: %w", w.role, w.err))
			}
		case <-timeout:
			errs = append(errs, fmt.Errorf("unitree: the %s (process %d) has not ended", w.role, w.cmd.Process.Pid))
		}
	}
	return errors.Join(errs...)
}
