package newrobot_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/internal/newrobot"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
)

func TestWrite_MakesARobotThatIsComplete(t *testing.T) {
	t.Chdir(t.TempDir())
	var out bytes.Buffer
	rigtest.Must(t, newrobot.Write(&out, "crawler"))
	if !strings.Contains(out.String(), "--config crawler/robot.yaml") {
		t.Errorf("printed %q", out.String())
	}
	file, err := configs.Load("crawler/robot.yaml")
	rigtest.Must(t, err)
	if _, err := setup.OpenSession(file, false); err != nil {
		t.Error(err)
	}
	files := 0
	err = filepath.WalkDir("crawler", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		info, err := d.Info()
		rigtest.Must(t, err)
		if script := filepath.Ext(path) == ".sh"; script != (info.Mode()&0o111 != 0) {
			t.Errorf("%s: mode %v", path, info.Mode())
		}
		text, err := os.ReadFile(path)
		if d.Name() == "optibfm_bridge.py" {
			return err
		}
		if bytes.Contains(text, []byte("examples/puck")) || bytes.Contains(text, []byte(`name="puck"`)) {
			t.Errorf("%s names the template", path)
		}
		return err
	})
	if err != nil || files != 9 {
		t.Errorf("%d files: %v", files, err)
	}
}

func TestWrite_RefusesWithoutChanges(t *testing.T) {
	t.Chdir(t.TempDir())
	rigtest.Must(t, os.Mkdir("taken", 0o755))
	for name, want := range map[string]string{
		"taken": "the folder exists", "": "bad name", "-v": "bad name", "a b": "bad name", "../up": "bad name",
		"a/b": "bad name", "é": "bad name", strings.Repeat("a", 65): "bad name",
	} {
		if err := newrobot.Write(io.Discard, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 1 {
		t.Errorf("%v: %v", entries, err)
	}
}
