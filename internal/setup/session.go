package setup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/term"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/internal/ipc"
	"optibfm/internal/journal"
	"optibfm/internal/plaintext"
	"optibfm/internal/shell"
	"optibfm/internal/taskstore"
	"optibfm/internal/version"
	"optibfm/rtloop"
)

// Session is a checked configuration with its model: the start of a run, in real time or in
// lockstep.
type Session struct {
	File  configs.File
	YAML  []byte // the configuration for the host process; the log has no secrets
	Model Model
	Fresh bool // set the belief of earlier runs aside
	Warm  WarmStart
	Start *Start // the task of run.start_task; nil: none

	last    *taskstore.Task   // of run.state_dir; nil: none
	Began   string            // name of the saved task with which the run begins, "" for none; set by Recall
	Lineage taskstore.Lineage // of the run's labels; set by Recall

	Invoked shell.Invocation

	OnSync func(running bool) // of the log; may be nil

	LogNotices []string // messages about logs that CreateLog removed

	Timeline ipc.Timeline // of the start
}

// Shape returns the sizes of the ticks of the session.
func (s *Session) Shape() controller.Shape {
	return s.File.Controller.Shape(s.Model.Dims())
}

// Task returns the task of a simulated robot, or "".
func (s *Session) Task() string {
	return s.File.Robot.Task()
}

// logFix is the fix for a log that cannot be created.
const logFix = "set log.dir to a writable folder, or log.enabled=false"

// CreateLog creates the log of a run. It returns nil if log.enabled is false.
func (s *Session) CreateLog(
	spec hal.Spec, posture string, simulated bool,
) (w *flightlog.Writer, path string, err error) {
	if !s.File.Log.Enabled {
		return nil, "", nil
	}
	if err = os.MkdirAll(s.File.Log.Dir, 0o750); err != nil {
		return nil, "", fmt.Errorf("log: %w; %s", err, logFix)
	}
	removed, exceeded, err := MakeRoom(s.File.Log)
	if err != nil {
		return nil, "", errors.Join(append([]error{err}, asErrors(removed)...)...)
	}
	s.LogNotices = append(removed, exceeded...)
	recorded, err := s.File.Redacted().YAML()
	if err != nil {
		return nil, "", err
	}
	now := time.Now()
	meta := flightlog.Metadata{
		Program: version.String(), ModelHash: s.Model.Fingerprint(), Posture: posture,
		Robot: spec, Shape: s.Shape(), Control: s.File.Controller, Config: recorded,
		Clock: flightlog.Clock{Simulated: simulated, MonoNS: rtloop.Now(), WallNS: now.UnixNano()},
		Extra: map[string]string{"task": s.Task()},
	}
	if s.File.Run.Shadow {
		meta.Extra["shadow"] = "the actions went nowhere: the robot was neither armed nor moved"
	}
	if s.Lineage.Run != "" {
		s.Lineage.Describe(meta.Extra)
	}
	if simulated {
		meta.Clock.MonoNS = 0
	}
	opts := flightlog.Options{
		FlushEvery: time.Duration(s.File.Log.FlushMS * float64(time.Millisecond)),
		NoSync:     simulated,
		OnSync:     s.OnSync,
	}
	name := cmp.Or(plaintext.FileName(spec.Name), "robot")
	return createUnique(s.File.Log.Dir, now.UTC().Format("20060102-150405")+"-"+name, meta, opts)
}

// asErrors returns messages that must reach the terminal although the run does not start.
func asErrors(texts []string) (errs []error) {
	for _, text := range texts {
		errs = append(errs, errors.New(text))
	}
	return errs
}

// createUnique creates a log with a new name.
func createUnique(
	dir, stem string, meta flightlog.Metadata, opts flightlog.Options,
) (*flightlog.Writer, string, error) {
	for n := 1; ; n++ {
		name := stem + ".mcap"
		if n > 1 {
			name = fmt.Sprintf("%s-%d.mcap", stem, n)
		}
		path := filepath.Join(dir, name)
		w, err := flightlog.Create(path, meta, opts)
		if errors.Is(err, fs.ErrExist) && n < 1000 {
			continue
		}
		if err != nil {
			return nil, "", fmt.Errorf("log: %w; %s", err, logFix)
		}
		return w, path, nil
	}
}

// UpdateYAML encodes the present configuration, with its secrets, for the host process.
func (s *Session) UpdateYAML() (err error) {
	s.YAML, err = s.File.YAML()
	return err
}

// CheckTerminal refuses a keyboard operator without a terminal, before anything is opened.
func (s *Session) CheckTerminal() error {
	if s.File.Operator.Source == configs.SourceKeyboard && !term.IsTerminal(int(os.Stdin.Fd())) {
		return fmt.Errorf("operator.source: found %s, but standard input is not a terminal; "+
			"run it in one, or use --operator %s", configs.SourceKeyboard, configs.SourceScripted)
	}
	return nil
}

// answersOf returns the moment that answers are about, where the operator's device tells it: the
// console repeats a clip, and a simulated operator without memory knows its reward at the request.
func answersOf(o configs.Operator) string {
	switch {
	case o.Source == configs.SourceWeb:
		return controller.AtClip
	case o.Source == configs.SourceScripted && o.Scripted.MemoryS == 0:
		return controller.AtRequest
	}
	return controller.Estimated
}

// SetBasis gives a configuration the task prior of its model, if it uses it.
func SetBasis(c *controller.Config, m Model) (err error) {
	if p := m.Prior(); p != nil && c.Prior != controller.Isotropic {
		c.Basis, err = controller.NewBasis(p)
	}
	return err
}

// OpenSession opens the model of a configuration and checks that they fit. A fresh session sets the
// belief of earlier runs aside.
func OpenSession(file configs.File, fresh bool) (s *Session, err error) {
	if file.Operator.NeverAsks() {
		file.Controller.Gate.Off = true
	}
	file.Controller.LabelRange = file.Operator.LabelRange()
	if c := &file.Controller.Credit; c.Answers == controller.Estimated {
		c.Answers = answersOf(file.Operator)
	}
	s = &Session{File: file, Fresh: fresh}
	if err := checkPaths(file); err != nil {
		return nil, err
	}
	if s.Model, err = s.openModel(); err != nil {
		return nil, err
	}
	if err := SetBasis(&s.File.Controller, s.Model); err != nil {
		return nil, err
	}
	if s.Start, err = LoadStart(&s.File, s.Model); err != nil {
		return nil, err
	}
	if err := LoadVetted(&s.File, s.Model); err != nil {
		return nil, err
	}
	if err := s.File.Controller.Validate(s.Model.Dims().Latent); err != nil {
		return nil, err
	}
	if err := s.Model.Fits(file); err != nil {
		return nil, err
	}
	_, warning, err := CheckChannels(file, s.Model)
	if err != nil {
		return nil, err
	}
	if warning != "" {
		text := plaintext.Printable("warning: " + shell.ThisProgram().Renamed(warning))
		fmt.Fprint(journal.For(os.Stderr, journal.Warning), plaintext.Wrap(text))
	}
	if s.File.Run.Lockstep {
		if err := s.Recall(); err != nil {
			return nil, err
		}
	}
	s.Timeline.End("prior and tasks")
	return s, s.UpdateYAML()
}

// openModel opens the model. A run in real time shares its weights with the host process.
func (s *Session) openModel() (Model, error) {
	if s.File.Run.Lockstep {
		return ConfiguredModel(s.File)
	}
	m, err := configuredModel(s.File, func(bundle string) (Model, error) {
		return LoadSharedModel(bundle, func() { s.Timeline.End("model file") })
	})
	s.Timeline.End("packing")
	return m, err
}
