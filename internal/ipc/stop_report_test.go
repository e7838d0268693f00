package ipc

import (
	"errors"
	"testing"

	"optibfm/controller"
)

func TestStopReport_IsOneLine(t *testing.T) {
	var r StopReport
	err := errors.Join(errors.New("pitch is beyond its limit"), errors.New("bridge: the server closed"))
	r.set(&controller.FaultError{Fault: controller.FaultAct, Err: err}, true)
	if got, want := r.Found(), "pitch is beyond its limit; bridge: the server closed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
