package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/lab/theory"
)

func TestTheTheoryIsNotCheckedWithTooFewRuns(t *testing.T) {
	root := newRootCommand()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs([]string{"theory", "--runs", "5"})
	if err := root.Execute(); !errors.Is(err, theory.ErrConfig) || !strings.Contains(err.Error(), "at least 40") {
		t.Errorf("found %v", err)
	}
}

func TestATheoryReportNeedsAFolder(t *testing.T) {
	if err := writeTheory("", theory.Report{}); err != nil {
		t.Errorf("nothing was to be written: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeTheory(file, theory.Report{}); err == nil || !strings.HasPrefix(err.Error(), "theory:") {
		t.Errorf("found %v", err)
	}
}
