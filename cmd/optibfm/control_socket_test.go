package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/internal/control"
)

func TestTheSocketIsFoundByItsPathOrByTheConfiguration(t *testing.T) {
	for _, c := range []struct{ socket, config, want string }{
		{"", "", defaultSocket},
		{"/a", "", "/a"},
		{"/a", "robot", "/a"},
		{"", "robot", defaultSocket},
	} {
		if got, err := socketOf(c.socket, c.config); err != nil || got != c.want {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
	if _, err := socketOf("", "rover"); err == nil {
		t.Error("a configuration without a socket was accepted")
	}
	if err := control.SendAndPrint(io.Discard, filepath.Join(t.TempDir(), "none"), "arm", false); err == nil || !strings.Contains(err.Error(), "check that the robot runs") {
		t.Error(err)
	}
}
