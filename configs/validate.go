package configs

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"optibfm/controller"
	"optibfm/internal/keys"
	"optibfm/internal/plaintext"
	"optibfm/internal/registry"
	"optibfm/internal/sections"
	"optibfm/rewardsrc/scripted"
)

// Validate checks a configuration that was not read from a file. Its errors
// name the keys.
func (f File) Validate() error {
	var errs []error
	for _, p := range f.problems() {
		errs = append(errs, errors.New(p.text))
	}
	return errors.Join(errs...)
}

// problem is something wrong with the value at a path.
type problem struct {
	path string
	text string // begins with the path
}

func (f File) problems() []problem {
	c := checker{file: reflect.ValueOf(f)}
	c.check(f)
	return c.found
}

// validate checks the values of a document. unread holds the errors of unreadable
// values.
func validate(cfg *File, doc *Document, unread []*Error) []*Error {
	c := checker{file: reflect.ValueOf(*cfg), given: doc.Has}
	for _, e := range unread {
		c.unread = append(c.unread, e.Path)
	}
	c.check(*cfg)
	var errs []*Error
	for _, p := range c.found {
		if c.readable(p.path) {
			errs = append(errs, doc.Mistake(p.path, p.text))
		}
	}
	return errs
}

type checker struct {
	file   reflect.Value
	found  []problem
	unread []string               // paths of values that could not be read; they have their defaults
	given  func(path string) bool // whether the text has a value; not nil if unread is not empty
}

func (c *checker) check(f File) {
	c.checkRules()
	if f.Model.Bundle == "" {
		c.add("model.bundle", " is empty; give the folder of a model bundle%s", orOneOf(registry.Models()))
	}
	if f.Log.Enabled && f.Log.Dir == "" {
		c.add("log.dir", " is empty; give a folder, or set log.enabled to false")
	}
	c.checkSafety(f)
	for _, backend := range (registry.BackendKind{}).List().Names() {
		c.checkSection("model."+backend, f.Model.Section(backend))
	}
	c.checkController(f)
	c.addErrors("loop", f.Loop.Validate())
	c.addErrors("operator.scripted", f.Operator.Scripted.Validate())
	c.addErrors("operator.keyboard", f.Operator.Keyboard.Validate())
	for _, device := range (sections.SourceKind{}).List().Names() {
		c.checkSection("operator."+device, f.Operator.Section(device))
	}
	c.addErrors("operator.remote", f.Operator.Remote.Validate())
	c.addErrors("operator.remote.labels", f.Operator.Remote.Labels.Validate())
	c.addErrors("operator.web", f.Operator.Web.Validate())
	c.addErrors("operator.view", f.Operator.View.Validate())
	c.checkSuggestions(f.Operator.Suggestions)
	c.checkRobot(f)
	c.checkSafetyConflicts(f)
	c.checkLockstep(f)
	c.checkConflicts(f)
	c.checkLabelRange(f)
	c.checkLabelMode(f.Operator)
}

// maxSuggestions and maxSuggestion limit operator.suggestions: they must fit a phone's screen.
const maxSuggestions, maxSuggestion = 5, 80

func (c *checker) checkSuggestions(all []string) {
	if len(all) > maxSuggestions {
		c.add("operator.suggestions", " has %d entries; keep at most %d", len(all), maxSuggestions)
	}
	for i, s := range all {
		if n := utf8.RuneCountInString(s); n == 0 || n > maxSuggestion || plaintext.Clean(s) != s {
			c.add(fmt.Sprintf("operator.suggestions[%d]", i),
				" is not a line of 1 to %d characters; write a task and its rule, such as "+
					"\"stand up: good while the head is high\"", maxSuggestion)
		}
	}
}

// orOneOf continues a sentence with choices, if there are any.
func orOneOf(choices []string) string {
	if len(choices) == 0 {
		return ""
	}
	return ", or " + strings.Join(choices, ", ")
}

// checkRobot checks the section of the robot, of a robot with devices first each of them, then what
// is connected to them.
func (c *checker) checkRobot(f File) {
	section, key := f.Robot.Chosen(), "robot."+f.Robot.Driver
	c.checkSection(key, section)
	if d, ok := section.(registry.Describer); ok && c.sound(key, "loop.period_ms") {
		_, err := d.Describe(f.Loop.Period())
		c.addErrors(key, err)
	}
}

// checkSection checks the section of a driver.
func (c *checker) checkSection(key string, section any) {
	if p, ok := section.(registry.PartChecker); ok {
		p.CheckParts(func(part string, err error) { c.addErrors(keys.Join(key, part), err) })
	}
	if v, ok := section.(registry.Validator); ok {
		c.addErrors(key, v.Validate())
	}
}

// checkController checks the section controller. With a start task, fixed_z may be missing: the
// task has it.
func (c *checker) checkController(f File) {
	if f.Run.StartTask != "" && f.Controller.Strategy == controller.Fixed && len(f.Controller.FixedZ) == 0 {
		f.Controller.Strategy = controller.Random
	}
	c.addErrors("controller", f.Controller.Validate(0))
}

// readable reports whether the value at a path is that of the text. It is
// not if the value, a part of it or a section around it could not be read. A
// value that the text leaves out is not readable if a key beside it could not be
// read: that key may be its misspelt name.
func (c *checker) readable(path string) bool {
	for _, wrong := range c.unread {
		if wrong == "" || overlap(wrong, path) {
			return false
		}
		for p := path; p != "" && !c.given(p); p = parent(p) {
			if parent(p) == parent(wrong) {
				return false
			}
		}
	}
	return true
}

// sound reports whether the values at all paths are readable and valid.
func (c *checker) sound(paths ...string) bool {
	return !slices.ContainsFunc(paths, func(path string) bool { return !c.readable(path) || c.hasWithin(path) })
}

// hasWithin reports whether a problem of a path, of a part of it or of a section
// around it was found.
func (c *checker) hasWithin(path string) bool {
	return slices.ContainsFunc(c.found, func(p problem) bool { return overlap(p.path, path) })
}

func (c *checker) has(path string) bool {
	return slices.ContainsFunc(c.found, func(p problem) bool { return p.path == path })
}

func (c *checker) add(path, format string, args ...any) {
	c.found = append(c.found, problem{path, path + fmt.Sprintf(format, args...)})
}

// addErrors adds the errors of a package's Validate. Their form, "package: key
// ...", names their key. A value outside its limits has its error already.
func (c *checker) addErrors(section string, err error) {
	for _, e := range unjoin(err) {
		path, text := c.locate(section, e)
		if c.has(path) || path != section && c.hasWithin(path) {
			continue
		}
		c.found = append(c.found, problem{path, text})
	}
}

// unjoin lists joined errors.
func unjoin(err error) []error {
	if err == nil || err == controller.ErrConfig {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range many.Unwrap() {
			all = append(all, unjoin(e)...)
		}
		return all
	}
	return []error{err}
}

func (c *checker) locate(section string, err error) (path, text string) {
	var field *controller.FieldError
	if errors.As(err, &field) {
		return keys.Join(section, field.Key), keys.Join(section, field.Error())
	}
	_, text, _ = strings.Cut(err.Error(), ": ") // without the package
	key := text[:strings.IndexAny(text+" ", " :")]
	path = keys.Join(section, key)
	if _, _, ok := lookup(c.file, path); !ok {
		return section, section + ": " + text
	}
	return path, path + text[len(key):]
}

// addConflict adds a problem of the first of several keys that contradict each
// other, if all of them are sound.
func (c *checker) addConflict(found bool, keys []string, format string, args ...any) {
	if found && c.sound(keys...) {
		c.add(keys[0], format, args...)
	}
}

func (c *checker) checkConflicts(f File) {
	if p, ok := f.Robot.Chosen().(registry.Periodic); ok {
		key := "robot." + f.Robot.Driver + ".period_ms"
		c.addConflict(math.Abs(f.Loop.PeriodMS-p.LoopPeriodMS()) > 1e-9,
			[]string{"loop.period_ms", "robot.driver", key},
			" is not the %s's period (%g ms, not %g ms); give loop.period_ms and %s the same value",
			f.Robot.Driver, f.Loop.PeriodMS, p.LoopPeriodMS(), key)
	}
	c.addConflict(f.Operator.Source == SourceWeb && f.Operator.Web.WatchOnly,
		[]string{"operator.web.watch_only", "operator.source"},
		" is true, but operator.source web needs the console for labels; set it to false, or choose another source")
	c.addConflict(f.Log.FramesHz > 0 && !f.Log.Enabled, []string{"log.frames_hz", "log.enabled"},
		" is %g, but log.enabled is false; set log.frames_hz to 0, or enable the log", f.Log.FramesHz)
	c.addConflict(f.Log.FramesHz > 0 && f.SimulatedTime(),
		append([]string{"log.frames_hz", "run.lockstep"}, robotKeys(f)...),
		" is %g, but the robot's time is simulated and that of pictures is not; set log.frames_hz to 0, or set "+
			"run.lockstep to false and the mode of a bridge to free", f.Log.FramesHz)
	c.addConflict(f.Controller.Gate.Pause == controller.PauseHold && f.Robot.HoldWith() == "",
		[]string{"controller.gate.pause", "robot.hold"},
		" is hold, but robot.hold does not say how this robot stands still; set robot.hold to one of %s, "+
			"or leave gate.pause empty", strings.Join(controller.Holds(), ", "))
	if h, ok := f.Robot.Chosen().(registry.Holding); ok && f.Robot.Hold != "" {
		c.addConflict(f.Robot.Hold != h.StandsStill(), []string{"robot.hold", "robot.driver"},
			" is %s, but the %s stands still only with %s; use that", f.Robot.Hold, f.Robot.Driver, h.StandsStill())
	}
	remote, ok := f.Robot.Chosen().(registry.RemoteControlled)
	c.addConflict(f.Operator.Source == SourceRemote && !(ok && remote.HasRemote()),
		[]string{"operator.source", "robot.driver"}, " is remote, but this robot has no remote control that the program "+
			"reads (robot.driver: %s); choose another source", f.Robot.Driver)
	waits := f.Operator.Source == SourceScripted && f.Operator.Scripted.Mode == scripted.WhenAsked
	c.addConflict(waits && (f.Controller.Gate.Off || f.Operator.NeverAsks()),
		[]string{"operator.scripted.mode", "operator.source", "operator.label_mode", "controller.gate.off"},
		" is when_asked, but controller.gate.off or operator.label_mode prevents all requests; "+
			"set operator.scripted.mode to every_tick")
}

// narrowest is the least difference between the labels good and bad where checkLabelRange applies.
const narrowest = 0.5

// checkLabelRange refuses labels of another scale than that of the keys with constants for it. With
// an offset, the belief learns all labels on the same scale, see controller.LabelRange.
func (c *checker) checkLabelRange(f File) {
	good, bad := f.Operator.Scale()
	if f.Controller.Offset > 0 || -1 <= bad && good <= 1 && good-bad >= narrowest {
		return
	}
	for _, x := range []struct {
		used bool
		key  string
	}{
		{f.Controller.Hypotheses && f.Controller.Prior != controller.Isotropic, "controller.hypotheses"},
		{f.Controller.Gate.StopWhenLearnt, "controller.gate.stop_when_learnt"},
		{f.Controller.Gate.Relearn, "controller.gate.relearn"},
	} {
		c.addConflict(x.used, []string{x.key, "controller.offset", "operator"},
			" needs labels between -1 and 1 that differ by at least %g (found %g to %g, operator.source: %s); "+
				"set it to false, or controller.offset above 0", narrowest, bad, good, f.Operator.Source)
	}
}

// checkLockstep checks for what a run in simulated time cannot have.
func (c *checker) checkLockstep(f File) {
	for _, x := range []struct {
		found bool
		keys  []string
		text  string
	}{
		{!registry.IsSimulated(f.Robot.Chosen()), append([]string{"run.lockstep"}, robotKeys(f)...),
			" is true, but the robot runs in real time (" + robotMode(f) + "); set it to false"},
		{f.Run.StateDir != "", []string{"run.state_dir", "run.lockstep"},
			" is " + f.Run.StateDir + ", but a run in lockstep depends only on its configuration, model and seed; " +
				"leave it empty, or set run.lockstep to false"},
		{f.Run.Shadow, []string{"run.shadow", "run.lockstep"},
			" is true, but run.lockstep has no real robot to protect; set one of them to false"},
		{f.Operator.Source != SourceScripted && f.Operator.Source != SourceNone,
			[]string{"operator.source", "run.lockstep"},
			" is " + f.Operator.Source + ", but run.lockstep is too fast for a person; " +
				"set run.lockstep to false, or use scripted"},
		{f.Operator.Web.WatchOnly, []string{"operator.web.watch_only", "run.lockstep"},
			" is true, but run.lockstep is too fast for a person; set one of them to false"},
	} {
		c.addConflict(f.Run.Lockstep && x.found, x.keys, "%s", x.text)
	}
}

// checkLabelMode checks that the source suits the label mode.
func (c *checker) checkLabelMode(o Operator) {
	key := "operator." + o.Source
	if b, ok := o.Chosen().(sections.Bound); ok && c.sound("operator.source", key) {
		c.addErrors(key, b.Bound())
	}
	device, ok := o.Chosen().(sections.Streaming)
	streams := o.Source == SourceWeb || ok && device.Streams() // the console has a slider
	c.addConflict(o.LabelMode == ModeContinuous && !streams,
		[]string{"operator.label_mode", "operator.source", key},
		" is continuous, but the source %s has no axis or held button; bind operator.evdev.axis, "+
			"give labels.hold_after_ms of evdev or gpio, or use the source web", o.Source)
	c.addConflict(o.LabelMode == ModePerRequest && o.Source == SourceScripted && o.Scripted.Mode == scripted.EveryTick,
		[]string{"operator.label_mode", "operator.source", "operator.scripted.mode"},
		" is per_request, but operator.scripted.mode every_tick does not wait for requests; use any")
}
