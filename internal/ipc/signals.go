package ipc

import (
	"errors"
	"os"
	"syscall"
)

// StopSignals halt the robot and end the run. SIGTSTP is among them because a robot cannot be
// suspended, and SIGQUIT because Go's default would end the process without a halt.
var StopSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP}

// The ends of a run that the host process causes, or that a signal causes before the robot is
// armed.
var (
	ErrInterrupted = errors.New("control: interrupted before the robot was armed: nothing moved")
	ErrHostFailed  = errors.New("control: the host process ended with an error, which it has printed")
	ErrHostKilled  = errors.New("control: the host process did not end in time and was killed; " +
		"see `optibfm log info` for what it recorded")
	ErrHostLeft = errors.New("control: the host process did not end in time, and this process may not kill it; " +
		"the service manager does")
)
