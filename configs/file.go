package configs

import (
	"math"
	"reflect"
	"slices"
	"time"

	"optibfm/controller"
	"optibfm/internal/keys"
	"optibfm/internal/registry"
	"optibfm/internal/sections"
	"optibfm/rewardsrc/frames"
	"optibfm/rewardsrc/keyboard"
	"optibfm/rewardsrc/remote"
	"optibfm/rewardsrc/scripted"
	"optibfm/rewardsrc/web"
	"optibfm/rtloop"
)

// Version is the version of the configuration format that this package reads.
const Version = 1

// The values of operator.source.
const (
	SourceScripted = "scripted" // a simulated operator, for robots with a reward
	SourceKeyboard = "keyboard" // a person at the terminal
	SourceConsole  = "console"  // lines on standard input
	SourceWeb      = "web"      // a person with a browser
	SourceRemote   = "remote"   // the remote control of the robot (robot.driver: unitree)
	SourceNone     = "none"     // no labels
)

// The values of operator.label_mode.
const (
	ModeAny        = "any"         // answers to requests, and presses without a request
	ModePerRequest = "per_request" // answers to requests only
	ModeEvents     = "events"      // no requests; a press is about the last moments
	ModeContinuous = "continuous"  // no requests; a stream of labels while a control is held
)

// File is a whole configuration. Start from [Default] or [Load].
type File struct {
	// Version of the format: 1.
	Version int `yaml:"version" rule:"[1, 1]"`
	// Robot is the controlled robot.
	Robot Robot `yaml:"robot"`
	// Model is the behaviour foundation model.
	Model Model `yaml:"model"`
	// Controller sets how tasks are inferred and labels are requested.
	Controller controller.Config `yaml:"controller"`
	// Loop is the real-time loop; lockstep uses only its period.
	Loop rtloop.Config `yaml:"loop"`
	// Safety sets who arms the robot and what stops it.
	Safety Safety `yaml:"safety"`
	// Operator is the source of labels.
	Operator Operator `yaml:"operator"`
	// Log sets the contents of the log.
	Log Log `yaml:"log"`
	// Run sets the length of the run and its processes.
	Run Run `yaml:"run"`
}

// Robot chooses a driver; only the section of that driver is used.
type Robot struct {
	// Driver is the name of a section below.
	Driver string `yaml:"driver"`

	sections.Sections[registry.RobotKind] `yaml:",inline"`

	// Hold is how the robot stands still while controller.gate.pause is hold and
	// a request is open: failsafe (the failsafe output of each action channel,
	// for commands of speed) or last_command (for commands of position). Empty:
	// it cannot stand still, except the rover, which has failsafe.
	Hold string `yaml:"hold" rule:"failsafe|last_command|"`
}

// Choices lists the values of a key that has choices.
func (Robot) Choices(key string) []string { return map[string][]string{"driver": Drivers()}[key] }

// Drivers lists the values of robot.driver.
func Drivers() []string { return registry.RobotKind{}.List().Names() }

// Chosen returns the section of the driver, nil for an unknown driver.
func (r Robot) Chosen() any { return r.Section(r.Driver) }

// Task returns the task of a simulated robot: the key task of its section, "" without one.
func (r Robot) Task() string {
	task, _ := r.task()
	return task.Value.String()
}

// Tasks lists the tasks of a robot that are known before it is opened; nil for others.
func (r Robot) Tasks() []string {
	if t, ok := r.Chosen().(registry.Tasked); ok {
		return t.Tasks()
	}
	task, _ := r.task()
	return task.Rule.Named()
}

func (r Robot) task() (keys.Field, bool) {
	if section := r.Chosen(); section != nil {
		if f, ok := keys.Find(reflect.ValueOf(section), "task"); ok && f.Value.Kind() == reflect.String {
			return f, true
		}
	}
	return keys.Field{Value: reflect.ValueOf("")}, false
}

// HasKey reports whether the section of the driver has a key.
func (r Robot) HasKey(key string) bool {
	section := r.Chosen()
	if section == nil {
		return false
	}
	_, ok := keys.Find(reflect.ValueOf(section), key)
	return ok
}

// HoldWith returns the output with which the robot stands still; empty if it cannot.
func (r Robot) HoldWith() string {
	if h, ok := r.Chosen().(registry.Holding); ok && r.Hold == "" {
		return h.StandsStill()
	}
	return r.Hold
}

// Model is the behaviour foundation model and its backend.
type Model struct {
	// Bundle is the folder of a model bundle, or embedded:rover. It may be
	// the bundle of a TensorFlow SavedModel.
	Bundle string `yaml:"bundle"`
	// Groups assemble the observation of a model with groups from the channels
	// of the robot. Not for other models: they read the channels as they are.
	Groups []controller.Group `yaml:"groups,omitempty"`
	// WarmStart is an .npz file with phi [n,d] and reward [n]. The belief
	// learns them before the run. Empty: none.
	WarmStart string `yaml:"warm_start"`
	// Backend evaluates the planner's candidates: native, or another backend of
	// the program, such as tensorflow. The control thread always uses native. If
	// the backend is missing, loop.posture decides: warn continues with native,
	// strict refuses to start. TensorFlow always evaluates a SavedModel, also on
	// the control thread.
	Backend string `yaml:"backend"`

	sections.Sections[registry.BackendKind] `yaml:",inline"`
}

// Chosen returns the section of the backend, nil for an unknown backend.
func (m Model) Chosen() any { return m.Section(m.Backend) }

// Choices lists the values of a key that has choices.
func (Model) Choices(key string) []string {
	return map[string][]string{"backend": registry.BackendKind{}.List().Names()}[key]
}

// Operator chooses a label source; only the section of that source is used.
type Operator struct {
	// Source is scripted, keyboard, console, web, remote, none or the name of a label device.
	Source string `yaml:"source"`
	// LabelMode sets what labels are about. any: a press answers the open
	// request; without one it is about the last moments. per_request: a press
	// without an open request is refused. events: no requests, each press is
	// about the last moments. continuous: no requests, an axis, a held button
	// or the slider of the source web gives a stream of labels.
	LabelMode string `yaml:"label_mode" rule:"any|per_request|events|continuous"`
	// Scripted is the simulated operator.
	Scripted scripted.Config `yaml:"scripted"`
	// Keyboard sets the values of keys; console uses them too.
	Keyboard keyboard.Config `yaml:"keyboard"`

	sections.Sections[sections.SourceKind] `yaml:",inline"`

	// Remote is the remote control of the robot itself.
	Remote remote.Config `yaml:"remote"`
	// Web is the console in a browser; with watch_only it runs beside any
	// other source.
	Web web.Config `yaml:"web"`
	// View is the pictures of the robot in the console.
	View frames.Config `yaml:"view"`
	// Suggestions are tasks that the screen and the console propose to the
	// person who labels, each with a rule: "stand up: good while the head is
	// high". At most 5, of at most 80 characters.
	Suggestions []string `yaml:"suggestions"`
}

// Choices lists the values of a key that has choices.
func (Operator) Choices(key string) []string {
	if key != "source" {
		return nil
	}
	devices := sections.SourceKind{}.List().Names()
	return slices.Concat([]string{SourceScripted, SourceKeyboard, SourceConsole}, devices,
		[]string{SourceWeb, SourceRemote, SourceNone})
}

// Chosen returns the section of a registered label device, nil for another source.
func (o Operator) Chosen() any { return o.Section(o.Source) }

// Scale returns the labels of the good and the bad button of the operator's device. A scripted
// operator has the ends of its rewards instead.
func (o Operator) Scale() (good, bad float64) {
	switch o.Source {
	case SourceScripted:
		return o.Scripted.RewardHigh, o.Scripted.RewardLow
	case SourceRemote:
		return o.Remote.Labels.GoodValue, o.Remote.Labels.BadValue
	case SourceWeb:
		return o.Web.GoodValue, o.Web.BadValue
	}
	if device, ok := o.Chosen().(sections.Scaled); ok {
		return device.Scale()
	}
	return o.Keyboard.GoodValue, o.Keyboard.BadValue
}

// LabelRange returns the range of the operator's labels.
func (o Operator) LabelRange() controller.LabelRange {
	good, bad := o.Scale()
	return controller.LabelRange{Bad: bad, Good: good}
}

// OnButtons reports whether the operator has a few buttons only: a registered label device or the
// robot's remote control. Their undo has more than one meaning.
func (o Operator) OnButtons() bool { return o.Chosen() != nil || o.Source == SourceRemote }

// NeverAsks reports whether the label mode has no requests.
func (o Operator) NeverAsks() bool {
	return o.LabelMode == ModeEvents || o.LabelMode == ModeContinuous
}

// ByPerson reports whether a person labels. A person must not see a simulator's task and reward.
func (o Operator) ByPerson() bool { return o.Source != SourceScripted && o.Source != SourceNone }

// Log sets the contents of the log.
type Log struct {
	// Enabled records the run. Labels are durable only if it is true.
	Enabled bool `yaml:"enabled"`
	// Dir is the folder for logs. The program creates it.
	Dir string `yaml:"dir"`
	// FlushMS is the longest time of ticks that a crash can lose.
	FlushMS float64 `yaml:"flush_ms" rule:"[1, 60000]"`
	// SnapshotS is the time between snapshots of the belief, in the log and in
	// run.state_dir.
	SnapshotS float64 `yaml:"snapshot_s" rule:"[0.1, 3600]"`
	// KeepGB is the limit for all logs and pictures in dir, in GB of 10⁹ bytes. At its
	// start and once a minute, a run removes pictures, then marked logs, above the
	// limit, the oldest first.
	// It never removes a log that was neither replayed nor released. 0: no limit.
	KeepGB float64 `yaml:"keep_gb" rule:"[0, 1e6]"`
	// MinFreeGB is the free space that a run needs on the disk of dir, in GB of
	// 10⁹ bytes. The program removes pictures and logs in the same way, at the start
	// and every minute. If that is not enough, a run does not start, and a
	// running one reports it. 0: no limit.
	MinFreeGB float64 `yaml:"min_free_gb" rule:"[0, 1e6]"`
	// FramesHz records the pictures of operator.view in files beside the log, at most
	// so many a second. It keeps their source open. 0: pictures are not recorded.
	FramesHz float64 `yaml:"frames_hz" rule:"[0, 60]"`
	// FramesDays is the age at which a run removes pictures from dir. 0: no limit.
	FramesDays float64 `yaml:"frames_days" rule:"[0, 36500]"`
}

// Run sets the length of a run, whose first limit ends it, and its processes.
type Run struct {
	// Lockstep runs everything in one process as fast as possible, with the
	// planner inside the tick. It is for simulators.
	Lockstep bool `yaml:"lockstep"`
	// DurationS ends the run. 0: no limit.
	DurationS float64 `yaml:"duration_s" rule:"[0, 1e9]"`
	// Episodes is the number of episodes after which the run ends. 0: no limit.
	Episodes int `yaml:"episodes" rule:"[0, 1e9]"`
	// EpisodeS is the length of an episode, rounded to periods. 0: one
	// endless episode.
	EpisodeS float64 `yaml:"episode_s" rule:"[0, 1e9]"`
	// Seed of the initial states of episodes.
	Seed uint64 `yaml:"seed" rule:"[0, inf)"`
	// HostUser is the user of the host process, for a control process of root or
	// of the packaged service. Empty: the user of the control process, which
	// loop.posture strict refuses for a physical robot.
	HostUser string `yaml:"host_user"`
	// HostTimeoutS is the longest silence of the host process. After it the
	// control process halts the robot.
	HostTimeoutS float64 `yaml:"host_timeout_s" rule:"[0.05, 60]"`
	// SimulatorWaitS is the shortest deadline of a simulator, a robot that can be
	// reset: a busy computer delays it, but nothing moves. In simulated time
	// (robot.driver rover, or bridge in mode lockstep) the robot and its time stand
	// still for so long while a live host process is silent or its plan too old. In
	// mode free, run.host_timeout_s, controller.max_plan_age_ticks,
	// safety.max_sample_age_ms and robot.bridge.stale_ms are at least as long. In
	// both, loop.max_missed_ticks and loop.watchdog_ms are. 0: the deadlines of a
	// physical robot.
	SimulatorWaitS float64 `yaml:"simulator_wait_s" rule:"[0, 3600]"`
	// StateDir is the folder of the task last, the newest belief, and of the task
	// previous, that before a switch. The program saves last after every label and
	// every log.snapshot_s; the next run starts with it. The model,
	// controller.lambda, rho and sigma must be the same. Empty: each run starts
	// with the prior.
	StateDir string `yaml:"state_dir"`
	// TaskDir is the folder of the saved tasks (optibfm task). Empty: the
	// folder tasks beside state_dir, or without state_dir the user's folder
	// ~/.local/state/optibfm/tasks.
	TaskDir string `yaml:"task_dir"`
	// FormerTasks makes the saved tasks of the model, at most the 32 newest,
	// hypotheses beside those of the task prior (controller.hypotheses).
	FormerTasks bool `yaml:"former_tasks"`
	// StartTask is the saved task with which the run starts, unless state_dir
	// has the belief of an earlier run. The strategy fixed follows its z.
	// Empty: none.
	StartTask string `yaml:"start_task"`
	// Shadow runs everything except the actuators. The program senses the
	// robot but does not arm or move it. The controller decides as if the robot
	// moved, from the moment of arming.
	Shadow bool `yaml:"shadow"`
}

// Steps returns the number of periods in an episode, 0 for an endless one.
func (r Run) Steps(period time.Duration) int {
	if r.EpisodeS == 0 {
		return 0
	}
	return max(1, int(math.Round(r.EpisodeS/period.Seconds())))
}

// Default returns the configuration of the first registered robot with the first embedded model and
// a scripted operator. Files and overrides change it.
func Default() File {
	var robot Robot
	if names := Drivers(); len(names) > 0 {
		robot.Driver = names[0]
	}
	loop := rtloop.DefaultConfig()
	if p, ok := robot.Chosen().(registry.Periodic); ok {
		loop.PeriodMS = p.LoopPeriodMS()
	}
	bundle := ""
	if models := registry.Models(); len(models) > 0 {
		bundle = models[0]
	}
	return File{
		Version:    Version,
		Robot:      robot,
		Model:      Model{Bundle: bundle, Backend: registry.BackendNative},
		Controller: controller.PersonConfig(),
		Loop:       loop,
		Safety: Safety{
			Arm: ArmAutomatic, AfterStop: AfterStopEnd,
			Start: controller.DefaultMotion(), Rest: controller.DefaultMotion(),
		},
		Operator: Operator{
			Source:    SourceScripted,
			LabelMode: ModeAny,
			Scripted:  scripted.DefaultConfig(),
			Keyboard:  keyboard.DefaultConfig(),
			Remote:    remote.DefaultConfig(),
			Web:       web.DefaultConfig(),
			View:      frames.DefaultConfig(),

			Suggestions: []string{},
		},
		Log: Log{Enabled: true, Dir: "logs", FlushMS: 200, SnapshotS: 10, MinFreeGB: 0.1, FramesDays: 7},
		Run: Run{DurationS: 60, EpisodeS: 10, HostTimeoutS: 1, SimulatorWaitS: 60, FormerTasks: true},
	}
}
