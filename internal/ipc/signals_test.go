package ipc

import (
	"syscall"
	"testing"

	"optibfm/internal/fatal"
)

// By default SIGUSR1 ends a process.
func TestUntilSignal_FurtherSignalsDoNotEndTheProcess(t *testing.T) {
	ctx, stop := UntilSignal(t.Context(), syscall.SIGUSR1)
	fatal.If(t, syscall.Kill(syscall.Getpid(), syscall.SIGUSR1))
	<-ctx.Done()
	stop()
	for range 3 {
		fatal.If(t, syscall.Kill(syscall.Getpid(), syscall.SIGUSR1))
	}
}
