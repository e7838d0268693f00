package configs

import (
	"math"
	"time"

	"optibfm/controller"
	"optibfm/hal/bridge"
	"optibfm/hal/rover"
	"optibfm/hal/unitree"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/frames"
	"optibfm/rewardsrc/gpio"
	"optibfm/rewardsrc/keyboard"
	"optibfm/rewardsrc/remote"
	"optibfm/rewardsrc/scripted"
	"optibfm/rewardsrc/web"
	"optibfm/rtloop"
	"optibfm/tflite/tensorflow"
)

// Version is the version of the configuration format that this package reads.
const Version = 1

// The values of robot.driver.
const (
	DriverRover     = "rover"     // the built-in simulator
	DriverBridge    = "bridge"    // a robot in another process
	DriverComposite = "composite" // a robot made of devices
	DriverUnitree   = "unitree"   // a Unitree Go2 or G1
)

// The values of operator.source.
const (
	SourceScripted = "scripted" // a simulated operator, for robots with a reward
	SourceKeyboard = "keyboard" // a person at the terminal
	SourceConsole  = "console"  // lines on standard input
	SourceEvdev    = "evdev"    // a gamepad, pedal, clicker or remote
	SourceGPIO     = "gpio"     // buttons on the computer's pins
	SourceWeb      = "web"      // a person with a browser
	SourceRemote   = "remote"   // the remote control of the robot (robot.driver: unitree)
	SourceNone     = "none"     // no labels
)

// The values of model.backend.
const (
	BackendNative     = "native"     // the kernels of this program, on the CPU
	BackendTensorFlow = "tensorflow" // TensorFlow, on the device of model.tensorflow
)

// The values of operator.label_mode.
const (
	ModeAny        = "any"         // answers to requests, and presses without a request
	ModePerRequest = "per_request" // answers to requests only
	ModeEvents     = "events"      // no requests; a press is about the last moments
	ModeContinuous = "continuous"  // no requests; a stream of labels while a control is held
)

// EmbeddedRover is the model.bundle of the rover's model in the program.
const EmbeddedRover = "embedded:rover"

// File is a whole configuration. Start from [Default] or [Load].
type File struct {
	// Version of the format: 1.
	Version int `yaml:"version"`
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
	// Log sets what is recorded.
	Log Log `yaml:"log"`
	// Run sets the length of the run and its processes.
	Run Run `yaml:"run"`
}

// Robot chooses a driver; only the section of that driver is used.
type Robot struct {
	// Driver is rover, bridge, composite or unitree.
	Driver string `yaml:"driver"`
	// Rover is the built-in simulated robot.
	Rover rover.Config `yaml:"rover"`
	// Bridge is a robot in another process.
	Bridge bridge.Config `yaml:"bridge"`
	// Composite is a robot made of devices on this computer's buses.
	Composite Composite `yaml:"composite"`
	// Unitree is a Go2 or a G1 on a network interface of this computer.
	Unitree unitree.Config `yaml:"unitree"`
	// Hold is how the robot stands still while controller.gate.pause is hold and
	// a request is open: failsafe (the failsafe output of each action channel,
	// for commands of speed) or last_command (for commands of position). Empty:
	// it cannot stand still, except the rover, which has failsafe.
	Hold string `yaml:"hold"`
}

// HoldWith returns how the robot stands still; empty if it cannot.
func (r Robot) HoldWith() string {
	if r.Hold == "" && r.Driver == DriverRover {
		return controller.HoldFailsafe
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
	// Backend evaluates the planner's candidates: native or tensorflow. The
	// control thread always uses native. Without TensorFlow, loop.posture
	// decides: warn continues with native, strict refuses to start. TensorFlow
	// always evaluates a SavedModel, also on the control thread.
	Backend string `yaml:"backend"`
	// TensorFlow is used if backend is tensorflow or the bundle is a
	// SavedModel.
	TensorFlow tensorflow.Config `yaml:"tensorflow"`
}

// Operator chooses a label source; only the section of that source is used.
type Operator struct {
	// Source is scripted, keyboard, console, evdev, gpio, web, remote or none.
	Source string `yaml:"source"`
	// LabelMode sets what labels are about. any: a press answers the open
	// request; without one it is about the last moments. per_request: a press
	// without an open request is refused. events: no requests, each press is
	// about the last moments. continuous: no requests, an axis, a held button
	// or the slider of the source web gives a stream of labels.
	LabelMode string `yaml:"label_mode"`
	// Scripted is the simulated operator.
	Scripted scripted.Config `yaml:"scripted"`
	// Keyboard sets the values of keys; console uses them too.
	Keyboard keyboard.Config `yaml:"keyboard"`
	// Evdev is a gamepad, pedal, clicker, remote or another input device.
	Evdev evdev.Config `yaml:"evdev"`
	// GPIO is buttons on the computer's pins.
	GPIO gpio.Config `yaml:"gpio"`
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

// NeverAsks reports whether the label mode has no requests.
func (o Operator) NeverAsks() bool {
	return o.LabelMode == ModeEvents || o.LabelMode == ModeContinuous
}

// ByPerson reports whether a person labels. A person must not see a simulator's task and reward.
func (o Operator) ByPerson() bool { return o.Source != SourceScripted && o.Source != SourceNone }

// Log sets what is recorded.
type Log struct {
	// Enabled records the run. Labels are durable only if it is true.
	Enabled bool `yaml:"enabled"`
	// Dir is the folder for logs. The program creates it.
	Dir string `yaml:"dir"`
	// FlushMS is the longest time of ticks that a crash can lose.
	FlushMS float64 `yaml:"flush_ms"`
	// SnapshotS is the time between snapshots of the belief, in the log and in
	// run.state_dir.
	SnapshotS float64 `yaml:"snapshot_s"`
	// KeepGB is the limit for all logs and pictures in dir, in GB of 10⁹ bytes. At its
	// start and once a minute, a run removes pictures, then marked logs, above the
	// limit, the oldest first.
	// It never removes a log that was neither replayed nor released. 0: no limit.
	KeepGB float64 `yaml:"keep_gb"`
	// MinFreeGB is the free space that a run needs on the disk of dir, in GB of
	// 10⁹ bytes. The program removes pictures and logs in the same way, at the start
	// and every minute. If that is not enough, a run does not start, and a
	// running one reports it. 0: no limit.
	MinFreeGB float64 `yaml:"min_free_gb"`
	// FramesHz records the pictures of operator.view in files beside the log, at most
	// so many a second. It keeps their source open. 0: pictures are not recorded.
	FramesHz float64 `yaml:"frames_hz"`
	// FramesDays is the age at which a run removes pictures from dir. 0: no limit.
	FramesDays float64 `yaml:"frames_days"`
}

// Run sets the length of a run, whose first limit ends it, and its processes.
type Run struct {
	// Lockstep runs everything in one process as fast as possible, with the
	// planner inside the tick. It is for simulators.
	Lockstep bool `yaml:"lockstep"`
	// DurationS ends the run. 0: no limit.
	DurationS float64 `yaml:"duration_s"`
	// Episodes is the number of episodes after which the run ends. 0: no limit.
	Episodes int `yaml:"episodes"`
	// EpisodeS is the length of an episode, rounded to periods. 0: one
	// endless episode.
	EpisodeS float64 `yaml:"episode_s"`
	// Seed of the initial states of episodes.
	Seed uint64 `yaml:"seed"`
	// HostUser is the user of the host process, for a control process of root or
	// of the packaged service. Empty: the user of the control process, which
	// loop.posture strict refuses for a physical robot.
	HostUser string `yaml:"host_user"`
	// HostTimeoutS is the longest silence of the host process. After it the
	// control process halts the robot.
	HostTimeoutS float64 `yaml:"host_timeout_s"`
	// SimulatorWaitS is the shortest deadline of a simulator, a robot that can be
	// reset: a busy computer delays it, but nothing moves. In simulated time
	// (robot.driver rover, or bridge in mode lockstep) the robot and its time stand
	// still for so long while a live host process is silent or its plan too old. In
	// mode free, run.host_timeout_s, controller.max_plan_age_ticks,
	// safety.max_sample_age_ms and robot.bridge.stale_ms are at least as long. In
	// both, loop.max_missed_ticks and loop.watchdog_ms are. 0: the deadlines of a
	// physical robot.
	SimulatorWaitS float64 `yaml:"simulator_wait_s"`
	// StateDir is the folder of the saved belief. The program saves it after
	// every label and every log.snapshot_s; the next run starts with it. The
	// model, controller.lambda, rho and sigma must be the same. Empty: each
	// run starts with the prior.
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

// Default returns the configuration of the embedded rover with a scripted
// operator. Files and overrides change it.
func Default() File {
	robot := rover.DefaultConfig()
	loop := rtloop.DefaultConfig()
	loop.PeriodMS = robot.PeriodMS
	return File{
		Version: Version,
		Robot: Robot{
			Driver: DriverRover, Rover: robot, Composite: Composite{Name: "robot", I2CTimeoutMS: 10},
			Unitree: unitree.DefaultConfig(),
		},
		Model:      Model{Bundle: EmbeddedRover, Backend: BackendNative, TensorFlow: tensorflow.DefaultConfig()},
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
			Evdev:     evdev.DefaultConfig(),
			GPIO:      gpio.DefaultConfig(),
			Remote:    remote.DefaultConfig(),
			Web:       web.DefaultConfig(),
			View:      frames.DefaultConfig(),

			Suggestions: []string{},
		},
		Log: Log{Enabled: true, Dir: "logs", FlushMS: 200, SnapshotS: 10, MinFreeGB: 0.1, FramesDays: 7},
		Run: Run{DurationS: 60, EpisodeS: 10, HostTimeoutS: 1, SimulatorWaitS: 60, FormerTasks: true},
	}
}
