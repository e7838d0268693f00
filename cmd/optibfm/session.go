package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/hal"
	"optibfm/rtloop"
)

// session is what both ways of running start from.
type session struct {
	file  configs.File
	yaml  []byte // the configuration as it is recorded
	model networks
	fresh bool // what earlier runs have learnt is set aside
	warm  warmStart

	invoked invocation

	onSync func(running bool) // of the log; may be nil

	roomMade []string // what createLog did to other logs, in words
}

// shape is the size of the session's ticks.
func (s *session) shape() controller.Shape {
	d := s.model.Dims()
	return controller.Shape{Obs: d.Obs, Action: d.Action, Latent: d.Latent}
}

// task names what the robot is rewarded for, where it is a simulator.
func (s *session) task() string {
	switch s.file.Robot.Driver {
	case configs.DriverRover:
		return s.file.Robot.Rover.Task
	case configs.DriverBridge:
		return s.file.Robot.Bridge.Task
	}
	return ""
}

// createLog starts the record of a run, or returns nil where it is off.
func (s *session) createLog(spec hal.Spec, posture string, simulated bool) (w *flightlog.Writer, path string, err error) {
	if !s.file.Log.Enabled {
		return nil, "", nil
	}
	if err = os.MkdirAll(s.file.Log.Dir, 0o755); err != nil {
		return nil, "", fmt.Errorf("log: %w: give a log.dir that can be written to, or set log.enabled=false", err)
	}
	if s.roomMade, err = makeRoom(s.file.Log); err != nil {
		return nil, "", err
	}
	now := time.Now()
	meta := flightlog.Metadata{
		Program: version(), ModelHash: s.model.hash(), Posture: posture,
		Robot: spec, Shape: s.shape(), Control: s.file.Controller, Config: s.yaml,
		Clock: flightlog.Clock{Simulated: simulated, MonoNS: rtloop.Now(), WallNS: now.UnixNano()},
		Extra: map[string]string{"task": s.task()},
	}
	if s.file.Run.Shadow {
		meta.Extra["shadow"] = "the actions went nowhere: the robot was neither armed nor moved"
	}
	if simulated {
		meta.Clock.MonoNS = 0
	}
	opts := flightlog.Options{
		FlushEvery: time.Duration(s.file.Log.FlushMS * float64(time.Millisecond)),
		NoSync:     simulated,
		OnSync:     s.onSync,
	}
	return createUnique(s.file.Log.Dir, now.UTC().Format("20060102-150405")+"-"+fileName(spec.Name), meta, opts)
}

// fileName makes a part of a file name of a robot's name, which another program may
// have chosen. It holds only characters that no shell and no file system takes for
// something else.
func fileName(name string) string {
	const longest = 100 // of the 255 bytes that a file name may have
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_':
			return r
		}
		return '-'
	}, name)
	return cmp.Or(safe[:min(len(safe), longest)], "robot")
}

// createUnique makes a log whose name no other has.
func createUnique(dir, stem string, meta flightlog.Metadata, opts flightlog.Options) (*flightlog.Writer, string, error) {
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
			return nil, "", fmt.Errorf("log: %w", err)
		}
		return w, path, nil
	}
}

// settle writes down the configuration as it now is, which is what the host
// process works from and what the log keeps.
func (s *session) settle() (err error) {
	s.yaml, err = s.file.YAML()
	return err
}

// checkTerminal refuses a keyboard operator without a keyboard, before
// anything is opened.
func (s *session) checkTerminal() error {
	if s.file.Operator.Source == configs.SourceKeyboard && !term.IsTerminal(int(os.Stdin.Fd())) {
		return fmt.Errorf("operator.source: found %s, but standard input is not a terminal: run it in one, or use --operator %s", configs.SourceKeyboard, configs.SourceScripted)
	}
	return nil
}

// openSession opens the model of a configuration and checks that they fit.
func openSession(file configs.File, fresh bool) (s *session, err error) {
	if file.Operator.NeverAsks() {
		file.Controller.Gate.Off = true
	}
	s = &session{file: file, fresh: fresh}
	if err := checkPaths(file); err != nil {
		return nil, err
	}
	if s.model, err = openModel(file.Model); err != nil {
		return nil, fmt.Errorf("model.bundle: %w", err)
	}
	if err := file.Controller.Validate(s.model.Dims().Latent); err != nil {
		return nil, err
	}
	if err := s.model.fits(file); err != nil {
		return nil, err
	}
	_, warning, err := checkFitUnopened(file, s.model)
	if err != nil {
		return nil, err
	}
	if warning != "" {
		fmt.Fprint(os.Stderr, wrap("warning: "+warning))
	}
	return s, s.settle()
}
