package theory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReport_WriteFilesNeedsAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (Report{}).WriteFiles(file); err == nil || !strings.HasPrefix(err.Error(), "theory:") {
		t.Errorf("found %v", err)
	}
	dir := filepath.Join(t.TempDir(), "new", "folder")
	if err := (Report{}).WriteFiles(dir); err != nil {
		t.Error(err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*.csv")); len(files) != 2 {
		t.Errorf("wrote %v", files)
	}
}
