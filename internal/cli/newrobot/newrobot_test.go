package newrobot_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/internal/cli/newrobot"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
)

func TestWrite_MakesARobotThatIsComplete(t *testing.T) {
	t.Chdir(t.TempDir())
	var out bytes.Buffer
	fatal.If(t, newrobot.Write(&out, "crawler"))
	rigtest.Contains(t, out.String(), "--config crawler/robot.yaml")
	file, err := configs.Load("crawler/robot.yaml")
	fatal.If(t, err)
	errtest.Nil(t, errtest.Of(setup.OpenSession(file, false)))
	files := 0
	err = filepath.WalkDir("crawler", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		info, err := d.Info()
		fatal.If(t, err)
		if script := filepath.Ext(path) == ".sh"; script != (info.Mode()&0o111 != 0) {
			t.Errorf("%s: mode %v", path, info.Mode())
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("examples/puck")) || bytes.Contains(text, []byte(`name="puck"`)) {
			t.Errorf("%s names the template", path)
		}
		return err
	})
	if err != nil || files != 8 {
		t.Errorf("%d files: %v", files, err)
	}
}

func TestWrite_RefusesWithoutChanges(t *testing.T) {
	t.Chdir(t.TempDir())
	fatal.If(t, os.Mkdir("taken", 0o755))
	for name, want := range map[string]string{
		"taken": "the folder exists", "": "bad name", "-v": "bad name", "a b": "bad name", "../up": "bad name",
		"a/b": "bad name", "é": "bad name", strings.Repeat("a", 65): "bad name",
	} {
		errtest.Contains(t, newrobot.Write(io.Discard, name), want, name)
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 1 {
		t.Errorf("%v: %v", entries, err)
	}
}

// The script of the template keeps a model that works until the new one is complete.
func TestTrainScript_KeepsTheFormerModel(t *testing.T) {
	t.Chdir(t.TempDir())
	fatal.If(t, newrobot.Write(io.Discard, "crawler"))
	fatal.If(t, os.MkdirAll("scripts", 0o755))
	fatal.If(t, os.WriteFile("scripts/train_fb.py", nil, 0o644))
	fatal.If(t, os.Mkdir("bin", 0o755))
	former, err := os.ReadFile("crawler/model/bfm.json")
	fatal.If(t, err)
	t.Setenv("PATH", filepath.Join(must(os.Getwd()), "bin")+":"+os.Getenv("PATH"))
	train := func(python string) error {
		text := "#!/bin/sh\nwhile [ \"$1\" != --out ]; do shift; done\nmkdir -p \"$2\" && " + python + "\n"
		fatal.If(t, os.WriteFile("bin/python3", []byte(text), 0o755))
		return exec.Command("crawler/train.sh").Run()
	}
	kept := func() (models []string) {
		models, err := filepath.Glob("crawler/model.*-*/bfm.json")
		fatal.If(t, err)
		return models
	}
	for _, broken := range []string{"exit 1", `kill -INT $PPID`} {
		errtest.NotNil(t, train(broken), broken)
		if now, err := os.ReadFile("crawler/model/bfm.json"); err != nil || !bytes.Equal(now, former) || kept() != nil {
			t.Errorf("%s: %v, the former model is not in its place", broken, err)
		}
	}
	fatal.If(t, train(`echo new >"$2/bfm.json"`))
	if now, err := os.ReadFile("crawler/model/bfm.json"); err != nil || string(now) != "new\n" {
		t.Errorf("the new model: %q, %v", now, err)
	}
	if models := kept(); len(models) != 1 || !bytes.Equal(must(os.ReadFile(models[0])), former) {
		t.Errorf("kept %q", models)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
