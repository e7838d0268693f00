package theory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func TestReport_WriteFilesNeedsAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	fatal.If(t, os.WriteFile(file, nil, 0o600))
	if err := (Report{}).WriteFiles(file); err == nil || !strings.HasPrefix(err.Error(), "theory:") {
		t.Errorf("found %v", err)
	}
	dir := filepath.Join(t.TempDir(), "new", "folder")
	errtest.Nil(t, (Report{}).WriteFiles(dir))
	if files, _ := filepath.Glob(filepath.Join(dir, "*.csv")); len(files) != 2 {
		t.Errorf("wrote %v", files)
	}
}
