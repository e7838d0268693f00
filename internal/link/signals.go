package link

import (
	"errors"
	"os"
	"syscall"
)

// StopSignals end a run: the robot is halted first. SIGTSTP and SIGQUIT are among
// them because a robot cannot be suspended, and because a dump of goroutines would
// leave it as it is.
var StopSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP}

var (
	ErrInterrupted = errors.New("control: interrupted before the robot was armed: nothing moved")
	ErrHostFailed  = errors.New("control: the host process ended with an error, which it has printed")
	ErrHostKilled  = errors.New("control: the host process did not end in time and was killed; " +
		"see `optibfm log info` for what it recorded")
)
