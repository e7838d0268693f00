package setup_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
)

func TestCreateLog_NameIsSafeForAnyRobotName(t *testing.T) {
	safe := regexp.MustCompile(`^[A-Za-z0-9._-]{1,200}$`)
	for _, name := range []string{
		"rover", "dm_control walker", "../../etc/passwd", "a/b", "", "-rf *", "Roboter Müller", "it's $HOME;`id`\n",
		"\x00", strings.Repeat("long ", 200), "AntMaze (large)",
	} {
		s := rigtest.NewSession(t, nil)
		w, path, err := s.CreateLog(hal.Spec{Name: name, Period: 1}, "", true)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		errtest.Nil(t, w.Close(), name)
		if base := filepath.Base(path); filepath.Dir(path) != s.File.Log.Dir || !safe.MatchString(base) {
			t.Errorf("%q: the log is %s", name, path)
		}
	}
}

func TestCreateLog_RecordsNoSecretsOfAddresses(t *testing.T) {
	s := rigtest.NewSession(t, nil)
	s.File.Operator.View.URL = "http://me:s3cret@cam/?token=s3cret"
	fatal.If(t, s.UpdateYAML())
	w, path, err := s.CreateLog(hal.Spec{Name: "robot", Period: 1}, "", true)
	fatal.If(t, err)
	fatal.If(t, w.Close())
	log, err := os.ReadFile(path)
	fatal.If(t, err)
	if bytes.Contains(log, []byte("s3cret")) || !bytes.Contains(log, []byte("@cam/")) {
		t.Error("the log has the password, or no address")
	}
	if !bytes.Contains(s.YAML, []byte("me:s3cret@cam")) {
		t.Error("the host process does not receive the password")
	}
}

func TestCreateLog_UnwritableFolderHasAFix(t *testing.T) {
	for _, dir := range []string{"/proc/optibfm", "/proc"} { // it cannot be created, or written to
		s := rigtest.NewSession(t, func(f *configs.File) { f.Log.Dir, f.Log.MinFreeGB = dir, 0 })
		_, _, err := s.CreateLog(hal.Spec{Name: "rover", Period: 1}, "", true)
		errtest.Contains(t, err, "set log.dir to a writable folder", dir)
	}
}

func TestOpenSession_LearnsTheRangeOfTheOperatorsLabels(t *testing.T) {
	file := configs.Default()
	want := controller.LabelRange{Bad: -5, Good: 10}
	file.Operator.Scripted.RewardLow, file.Operator.Scripted.RewardHigh = want.Bad, want.Good
	s, err := setup.OpenSession(file, false)
	fatal.If(t, err)
	if got := s.File.Controller.LabelRange; got != want {
		t.Errorf("found %v, want %v", got, want)
	}
}

func TestOpenSession_AnswersOfWhoSeesTheRequestAreAboutIt(t *testing.T) {
	for _, c := range []struct {
		source  string
		memoryS float64
		want    string
	}{
		{configs.SourceWeb, 0, controller.AtClip},
		{configs.SourceKeyboard, 0, controller.Estimated},
		{"evdev", 0, controller.Estimated},
		{configs.SourceScripted, 0, controller.AtRequest},
		{configs.SourceScripted, 0.25, controller.Estimated},
	} {
		file := configs.Default()
		file.Operator.Source, file.Operator.Scripted.MemoryS = c.source, c.memoryS
		s, err := setup.OpenSession(file, false)
		fatal.If(t, err)
		if got := s.File.Controller.Credit.Answers; got != c.want {
			t.Errorf("%s with a memory of %g s: answers %s, want %s", c.source, c.memoryS, got, c.want)
		}
	}
}
