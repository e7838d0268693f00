package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/internal/npz"
)

func TestCollectWritesWhatTrainingReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "transitions.npz")
	cmd := newCollectCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--transitions", "200", "--seed", "3", "--out", path})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "200 transitions") {
		t.Errorf("printed %q", out.String())
	}
	archive, err := npz.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, width := range map[string]int{"obs": 6, "action": 2, "next_obs": 6} {
		if _, err := archive.Shaped(name, 200, width); err != nil {
			t.Error(err)
		}
	}
	if _, err := archive.Shaped("episode", 200); err != nil {
		t.Error(err)
	}
}

func TestCollectRefusesToRecordNothing(t *testing.T) {
	cmd := newCollectCommand()
	cmd.SetOut(&bytes.Buffer{})
	cmd.SetErr(&bytes.Buffer{})
	cmd.SetArgs([]string{"--transitions", "0", "--out", filepath.Join(t.TempDir(), "none.npz")})
	if err := cmd.Execute(); err == nil {
		t.Error("no transitions were accepted")
	}
}
