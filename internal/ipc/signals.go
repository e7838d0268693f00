package ipc

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// StopSignals halt the robot and end the run. SIGTSTP is among them because a robot cannot be
// suspended, and SIGQUIT because Go's default would end the process without a halt.
var StopSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP}

// UntilSignal is [signal.NotifyContext], except that after one of the signals the process ignores
// further ones: they must not end it before it has printed its error.
func UntilSignal(ctx context.Context, signals ...os.Signal) (_ context.Context, stop func()) {
	ctx, release := signal.NotifyContext(ctx, signals...)
	return ctx, func() {
		if ctx.Err() == nil {
			release()
		}
	}
}

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
