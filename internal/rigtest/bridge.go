package rigtest

import (
	"testing"
	"time"

	"optibfm/hal/bridge/bridgetest"
)

// ExitTimeout limits the time of a program to end after a signal. Without the handling under test
// it takes 57 s or hangs.
const ExitTimeout = 25 * time.Second

// CheckHalted checks that a run halted the robot of a server, with at most acts actions after the
// fault.
func CheckHalted(t *testing.T, server *bridgetest.Server, acts int) {
	t.Helper()
	select {
	case <-server.Ended():
	case <-time.After(ExitTimeout):
		t.Error("the connection to the robot did not end")
	}
	if saw := server.Report(); !saw.Committed || !saw.Halted || saw.ActsAfter > acts {
		t.Errorf("the robot's server saw %+v", saw)
	}
}
