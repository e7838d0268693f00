package configs

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"optibfm/controller"
	"optibfm/hal/bno055"
	"optibfm/hal/bridge"
	"optibfm/hal/dynamixel"
	"optibfm/hal/feetech"
	"optibfm/hal/mit"
	"optibfm/hal/pca9685"
	"optibfm/hal/rover"
	"optibfm/hal/serial"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/gpio"
	"optibfm/rewardsrc/scripted"
	"optibfm/rewardsrc/web"
	"optibfm/rtloop"
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

// validate gives every problem its place. unread are the errors of values that could not be read.
func validate(cfg *File, doc *Document, unread []*Error) []*Error {
	c := checker{file: reflect.ValueOf(*cfg), given: doc.Has}
	for _, e := range unread {
		c.unread = append(c.unread, e.Path)
	}
	var errs []*Error
	c.check(*cfg)
	for _, p := range c.found {
		if c.readable(p.path) {
			errs = append(errs, errorAt(placeOf(doc.places, p.path, doc.start), p.path, p.text))
		}
	}
	return errs
}

// placeOf is where a value was given, or the nearest section around it.
func placeOf(places map[string]position, path string, start place) place {
	if at, ok := places[path]; ok {
		return at.value
	}
	for path != "" {
		path = around(path)
		if at, ok := places[path]; ok {
			return at.key
		}
	}
	return start
}

func (f File) problems() []problem {
	c := checker{file: reflect.ValueOf(f)}
	c.check(f)
	return c.found
}

func (c *checker) check(f File) {
	c.choices()
	c.numbers(f)
	c.checkSafety(f)
	c.takeOver("model.tensorflow", f.Model.TensorFlow.Validate())
	c.takeOver("controller", f.Controller.Validate(0))
	c.takeOver("loop", f.Loop.Validate())
	c.takeOver("operator.scripted", f.Operator.Scripted.Validate())
	c.takeOver("operator.keyboard", f.Operator.Keyboard.Validate())
	c.takeOver("operator.evdev", f.Operator.Evdev.Validate())
	c.takeOver("operator.evdev.labels", f.Operator.Evdev.Labels.Validate())
	c.takeOver("operator.gpio", f.Operator.GPIO.Validate())
	c.takeOver("operator.gpio.labels", f.Operator.GPIO.Labels.Validate())
	c.takeOver("operator.web", f.Operator.Web.Validate())
	switch f.Robot.Driver {
	case DriverRover:
		c.takeOver("robot.rover", f.Robot.Rover.Validate())
	case DriverBridge:
		c.takeOver("robot.bridge", f.Robot.Bridge.Validate())
	case DriverComposite:
		c.composite(f)
	}
	c.together(f)
}

type checker struct {
	file   reflect.Value
	found  []problem
	unread []string               // paths of values that could not be read: they have their defaults
	given  func(path string) bool // whether the text gives a value; needed where unread is not empty
}

// readable reports whether the value at a path is what the text says. It is not where the value, a part
// of it or a section around it could not be read. A value that the text leaves out is not readable
// beside one that could not be read: its key may be misspelled there.
func (c *checker) readable(path string) bool {
	for _, wrong := range c.unread {
		if wrong == "" || overlap(wrong, path) {
			return false
		}
		for p := path; p != "" && !c.given(p); p = around(p) {
			if around(p) == around(wrong) {
				return false
			}
		}
	}
	return true
}

// sound reports whether the values at all paths are readable and valid.
func (c *checker) sound(paths ...string) bool {
	for _, path := range paths {
		if !c.readable(path) || slices.ContainsFunc(c.found, func(p problem) bool { return overlap(p.path, path) }) {
			return false
		}
	}
	return true
}

// overlap reports whether one path is, or is within, the other.
func overlap(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return strings.HasPrefix(b, a) && (len(a) == len(b) || strings.IndexByte(".[", b[len(a)]) >= 0)
}

func (c *checker) add(path, format string, args ...any) {
	c.found = append(c.found, problem{path, path + fmt.Sprintf(format, args...)})
}

func (c *checker) has(path string) bool {
	for _, p := range c.found {
		if p.path == path {
			return true
		}
	}
	return false
}

// enums are the keys that have one of a few values; [] stands for every element
// of a list.
func enums() map[string][]string {
	modes := make([]string, 0, 2)
	for _, m := range scripted.Modes() {
		modes = append(modes, string(m))
	}
	tasks := make([]string, 0, 16)
	for _, t := range rover.Tasks() {
		tasks = append(tasks, t.Name)
	}
	return map[string][]string{
		"robot.driver":                                       {DriverRover, DriverBridge, DriverComposite},
		"robot.rover.task":                                   tasks,
		"robot.bridge.mode":                                  {bridge.Lockstep, bridge.Free, ""},
		"robot.composite.devices[].driver":                   deviceDrivers(),
		"robot.composite.devices[].bno055.mode":              {bno055.IMU, bno055.NDOF, ""},
		"robot.composite.devices[].pca9685.when_disarmed":    {pca9685.Off, pca9685.Pulses, ""},
		"robot.composite.devices[].pca9685.channels[].kind":  {pca9685.Pulse, pca9685.Duty, ""},
		"robot.composite.devices[].mcu.port.parity":          serial.Parities(),
		"robot.composite.devices[].dynamixel.port.parity":    serial.Parities(),
		"robot.composite.devices[].dynamixel.servos[].mode":  append(dynamixel.Modes(), ""),
		"robot.composite.devices[].dynamixel.servos[].model": append(dynamixel.Models(), ""),
		"robot.composite.devices[].feetech.port.parity":      serial.Parities(),
		"robot.composite.devices[].feetech.servos[].mode":    {feetech.Position, feetech.Velocity, ""},
		"robot.composite.devices[].mit.dialect":              {mit.Original, mit.Damiao, ""},
		"robot.composite.devices[].mit.motors[].mode":        {mit.Position, mit.Velocity, mit.Torque, mit.Impedance, ""},
		"model.backend":                                      {BackendNative, BackendTensorFlow},
		"controller.strategy":                                controller.Strategies(),
		"controller.beta.schedule":                           {controller.Constant, controller.Theory, controller.Misspecified},
		"loop.posture":                                       {rtloop.Strict, rtloop.Warn},
		"safety.arm":                                         {ArmAutomatic, ArmOperator},
		"safety.after_stop":                                  {AfterStopEnd, AfterStopHold},
		"operator.source":                                    {SourceScripted, SourceKeyboard, SourceConsole, SourceEvdev, SourceGPIO, SourceWeb, SourceNone},
		"operator.label_mode":                                {ModeAny, ModePerRequest, ModeEvents, ModeContinuous},
		"operator.evdev.axis.rest":                           evdev.Rests(),
		"operator.gpio.bias":                                 gpio.Biases(),
		"operator.scripted.mode":                             modes,
		"operator.web.tls":                                   web.TLSChoices(),
	}
}

func (c *checker) choices() {
	all := enums()
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if strings.Contains(path, "[]") {
			continue // checked with the rest of their lists
		}
		choices := all[path]
		v, _, _ := lookup(c.file, path)
		if !slices.Contains(choices, v.String()) {
			c.add(path, " is unknown (%q): %s", shorten(v.String()), suggest(v.String(), named(choices)))
		}
	}
}

// named leaves out the empty choice, which stands for a default.
func named(choices []string) []string {
	names := make([]string, 0, len(choices))
	for _, c := range choices {
		if c != "" {
			names = append(names, c)
		}
	}
	return names
}

// numbers checks what is this package's own.
func (c *checker) numbers(f File) {
	if f.Version != Version {
		c.add("version", " is %d: this program reads version %d", f.Version, Version)
	}
	if f.Model.Bundle == "" {
		c.add("model.bundle", " is empty: give the folder of a model bundle, or %s", EmbeddedRover)
	}
	if f.Log.Enabled && f.Log.Dir == "" {
		c.add("log.dir", " is empty: give a folder, or set log.enabled to false")
	}
	c.within("log.flush_ms", f.Log.FlushMS, 1, 60_000)
	c.within("log.snapshot_s", f.Log.SnapshotS, 0.1, 3600)
	c.within("run.duration_s", f.Run.DurationS, 0, 1e9)
	c.within("run.episode_s", f.Run.EpisodeS, 0, 1e9)
	c.within("run.episodes", float64(f.Run.Episodes), 0, 1e9)
	c.within("log.keep_gb", f.Log.KeepGB, 0, 1e6)
	c.within("log.min_free_gb", f.Log.MinFreeGB, 0, 1e6)
	c.within("run.host_timeout_s", f.Run.HostTimeoutS, 0.05, 60)
	c.within("run.simulator_wait_s", f.Run.SimulatorWaitS, 0, 2)
}

func (c *checker) within(path string, v, low, high float64) {
	if !(v >= low && v <= high) { // also NaN
		c.add(path, " is out of range (%g): choose a value from %g to %g", v, low, high)
	}
}

// takeOver takes the errors of a package's Validate over. By their form,
// "package: key ...", they say which key they are about.
func (c *checker) takeOver(section string, err error) {
	for _, leaf := range leaves(err) {
		path, text := c.locate(section, leaf)
		if !c.has(path) { // a wrong choice was told already
			c.found = append(c.found, problem{path, text})
		}
	}
}

// leaves takes joined errors apart.
func leaves(err error) []error {
	if err == nil || err == controller.ErrConfig {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range many.Unwrap() {
			all = append(all, leaves(e)...)
		}
		return all
	}
	return []error{err}
}

func (c *checker) locate(section string, err error) (path, text string) {
	var field *controller.FieldError
	if errors.As(err, &field) {
		path = join2(section, field.Key)
		return path, fmt.Sprintf("%s: found %v: %s", path, field.Found, field.Fix)
	}
	if errors.Is(err, rover.ErrUnknownTask) {
		return "robot.rover.task", "robot.rover.task: " + err.Error()
	}
	_, text, _ = strings.Cut(err.Error(), ": ") // without the package
	key := text[:strings.IndexFunc(text+" ", func(r rune) bool { return r == ' ' || r == ':' })]
	path = join2(section, key)
	if _, _, ok := lookup(c.file, path); !ok {
		return section, section + ": " + text
	}
	return path, path + text[len(key):]
}

// conflict adds a problem of the first of several keys that do not go together, if all of them are sound.
func (c *checker) conflict(found bool, keys []string, format string, args ...any) {
	if found && c.sound(keys...) {
		c.add(keys[0], format, args...)
	}
}

// together checks keys of several sections against each other.
func (c *checker) together(f File) {
	c.checkSafetyTogether(f)
	c.lockstep(f)
	c.conflict(f.Robot.Driver == DriverRover && math.Abs(f.Loop.PeriodMS-f.Robot.Rover.PeriodMS) > 1e-9,
		[]string{"loop.period_ms", "robot.driver", "robot.rover.period_ms"},
		" is not the rover's period (%g ms, not %g ms): give loop.period_ms and robot.rover.period_ms the same value",
		f.Loop.PeriodMS, f.Robot.Rover.PeriodMS)
	c.conflict(f.Operator.Source == SourceWeb && f.Operator.Web.WatchOnly,
		[]string{"operator.web.watch_only", "operator.source"},
		" is true, but operator.source is web: nobody could label: set it to false, or choose another source")
	c.labelling(f.Operator)
	waits := f.Operator.Source == SourceScripted && f.Operator.Scripted.Mode == scripted.WhenAsked
	c.conflict(waits && (f.Controller.Gate.Off || f.Operator.NeverAsks()),
		[]string{"operator.scripted.mode", "operator.source", "operator.label_mode", "controller.gate.off"},
		" is when_asked, but controller.gate.off or operator.label_mode asks never: no label would come")
}

// lockstep checks what a run in simulated time cannot have.
func (c *checker) lockstep(f File) {
	for _, x := range []struct {
		found bool
		keys  []string
		text  string
	}{
		{f.Robot.Driver == DriverBridge && f.Robot.Bridge.Mode == bridge.Free,
			[]string{"run.lockstep", "robot.driver", "robot.bridge.mode"},
			" is true, but the robot's time is its own (robot.bridge.mode: free): set it to false, or the mode to lockstep"},
		{f.Robot.Driver == DriverComposite, []string{"run.lockstep", "robot.driver"},
			" is true, but the robot's time is its own (robot.driver: composite): set it to false"},
		{f.Run.StateDir != "", []string{"run.state_dir", "run.lockstep"},
			" is " + f.Run.StateDir + ", but a run in lockstep is a function of its configuration, model and seed alone: " +
				"leave it empty, or set run.lockstep to false"},
		{f.Run.Shadow, []string{"run.shadow", "run.lockstep"},
			" is true, but nothing moves what run.lockstep runs: set one of them to false"},
		{f.Operator.Source != SourceScripted && f.Operator.Source != SourceNone, []string{"operator.source", "run.lockstep"},
			" is " + f.Operator.Source + ", but nobody presses as fast as run.lockstep runs: " +
				"set run.lockstep to false, or use scripted"},
		{f.Operator.Web.WatchOnly, []string{"operator.web.watch_only", "run.lockstep"},
			" is true, but nobody can watch what run.lockstep runs through: set one of them to false"},
	} {
		c.conflict(f.Run.Lockstep && x.found, x.keys, "%s", x.text)
	}
}

// labelling checks what the operator's source asks of the rest.
func (c *checker) labelling(o Operator) {
	streams := false
	switch o.Source {
	case SourceEvdev:
		if c.sound("operator.source", "operator.evdev") {
			c.takeOver("operator.evdev", o.Evdev.Bound())
		}
		streams = o.Evdev.Axis.Code != "" || o.Evdev.Labels.HoldAfterMS > 0
	case SourceGPIO:
		if c.sound("operator.source", "operator.gpio") {
			c.takeOver("operator.gpio", o.GPIO.Bound())
		}
		streams = o.GPIO.Labels.HoldAfterMS > 0
	case SourceWeb:
		streams = true // a slider
	}
	c.conflict(o.LabelMode == ModeContinuous && !streams,
		[]string{
			"operator.label_mode", "operator.source", "operator.evdev.axis", "operator.evdev.labels", "operator.gpio.labels",
		},
		" is continuous, but nothing of the source %s can be held: bind operator.evdev.axis, "+
			"give labels.hold_after_ms of evdev or gpio, or use the source web", o.Source)
	c.conflict(o.LabelMode == ModePerRequest && o.Source == SourceScripted && o.Scripted.Mode == scripted.EveryTick,
		[]string{"operator.label_mode", "operator.source", "operator.scripted.mode"},
		" is per_request, but operator.scripted.mode every_tick does not wait for requests: use any")
}
