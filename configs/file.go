package configs

import (
	"math"
	"time"

	"optibfm/controller"
	"optibfm/hal/bridge"
	"optibfm/hal/rover"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/gpio"
	"optibfm/rewardsrc/keyboard"
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
)

// The values of operator.source.
const (
	SourceScripted = "scripted" // a simulated operator, for robots that tell a reward
	SourceKeyboard = "keyboard" // a person at the terminal
	SourceConsole  = "console"  // lines on standard input
	SourceEvdev    = "evdev"    // a gamepad, pedal, clicker or remote
	SourceGPIO     = "gpio"     // buttons on the computer's pins
	SourceWeb      = "web"      // a person with a browser
	SourceNone     = "none"     // nobody
)

// The values of model.backend.
const (
	BackendNative     = "native"     // this program's own kernels, on the CPU
	BackendTensorFlow = "tensorflow" // TensorFlow, on the device that model.tensorflow names
)

// The values of operator.label_mode.
const (
	ModeAny        = "any"         // answers, and presses that nobody asked for
	ModePerRequest = "per_request" // answers only
	ModeEvents     = "events"      // nothing is asked; presses are about what was just seen
	ModeContinuous = "continuous"  // nothing is asked; a stream while something is held
)

// EmbeddedRover as model.bundle is the rover's model within the program.
const EmbeddedRover = "embedded:rover"

// File is a whole configuration. Start from [Default] or [Load].
type File struct {
	// Version of the format: 1.
	Version int `yaml:"version"`
	// Robot says which body is controlled.
	Robot Robot `yaml:"robot"`
	// Model says which behaviour foundation model moves it.
	Model Model `yaml:"model"`
	// Controller says how tasks are inferred and labels asked for.
	Controller controller.Config `yaml:"controller"`
	// Loop is the real-time loop; lockstep uses its period only.
	Loop rtloop.Config `yaml:"loop"`
	// Safety says who arms the robot and what stops it.
	Safety Safety `yaml:"safety"`
	// Operator says who labels.
	Operator Operator `yaml:"operator"`
	// Log says what is recorded.
	Log Log `yaml:"log"`
	// Run says how long it lasts.
	Run Run `yaml:"run"`
}

// Robot chooses a driver; only the chosen driver's section counts.
type Robot struct {
	// Driver is rover, bridge or composite.
	Driver string `yaml:"driver"`
	// Rover is the built-in simulated robot.
	Rover rover.Config `yaml:"rover"`
	// Bridge is a robot in another process.
	Bridge bridge.Config `yaml:"bridge"`
	// Composite is a robot made of devices on this computer's buses.
	Composite Composite `yaml:"composite"`
}

// Model says where the model comes from.
type Model struct {
	// Bundle is the folder of a model bundle, or embedded:rover. It may be
	// the bundle of a TensorFlow SavedModel.
	Bundle string `yaml:"bundle"`
	// WarmStart is an .npz file with phi [n,d] and reward [n] that the
	// belief learns before the run. Empty: none.
	WarmStart string `yaml:"warm_start"`
	// Backend evaluates the planner's candidates: native or tensorflow.
	// The control thread's networks are native always. Where TensorFlow
	// cannot be had, loop.posture decides: warn goes on with native, strict
	// refuses to start. A SavedModel is evaluated by TensorFlow whatever
	// stands here, on the control thread too.
	Backend string `yaml:"backend"`
	// TensorFlow counts where backend is tensorflow or the bundle a
	// SavedModel.
	TensorFlow tensorflow.Config `yaml:"tensorflow"`
}

// Operator chooses a label source; only the chosen source's section counts.
type Operator struct {
	// Source is scripted, keyboard, console, evdev, gpio, web or none.
	Source string `yaml:"source"`
	// LabelMode says what labels are about. any: a press answers the request
	// that is open, or else is about what was just seen. per_request: a press
	// that nobody asked for is refused. events: nothing is asked, every press
	// is about what was just seen. continuous: nothing is asked, an axis, a
	// held button or the slider of the source web gives a stream.
	LabelMode string `yaml:"label_mode"`
	// Scripted is the simulated operator.
	Scripted scripted.Config `yaml:"scripted"`
	// Keyboard says what keys mean; console uses its values too.
	Keyboard keyboard.Config `yaml:"keyboard"`
	// Evdev is a gamepad, pedal, clicker, remote or another input device.
	Evdev evdev.Config `yaml:"evdev"`
	// GPIO is buttons on the computer's pins.
	GPIO gpio.Config `yaml:"gpio"`
	// Web is the console in a browser; with watch_only it counts beside any
	// other source.
	Web web.Config `yaml:"web"`
}

// NeverAsks reports whether the label mode leaves no request to answer.
func (o Operator) NeverAsks() bool {
	return o.LabelMode == ModeEvents || o.LabelMode == ModeContinuous
}

// Log says what is recorded.
type Log struct {
	// Enabled records the run. Labels are durable only where it is true.
	Enabled bool `yaml:"enabled"`
	// Dir is the folder for logs; it is made where it is missing.
	Dir string `yaml:"dir"`
	// FlushMS is the window of ticks that a crash can lose.
	FlushMS float64 `yaml:"flush_ms"`
	// SnapshotS is the time between two snapshots of the belief, in the log
	// and in run.state_dir.
	SnapshotS float64 `yaml:"snapshot_s"`
	// KeepGB is the limit for all logs in dir, in GB of 10⁹ bytes. At its start and
	// once a minute, a run removes verified logs above the limit, the oldest first.
	// It never removes a log that was neither replayed nor released. 0: no limit.
	KeepGB float64 `yaml:"keep_gb"`
	// MinFreeGB is what must be free on the disk of dir when a run starts, in
	// GB of 10⁹ bytes. Older logs make room in the same way, also while it goes
	// on, looked at once a minute; where that is not enough, the run does not
	// start, and one that goes on says so. 0: it does not matter.
	MinFreeGB float64 `yaml:"min_free_gb"`
}

// Run says how long a run lasts; what ends first, ends it.
type Run struct {
	// Lockstep runs everything in one process as fast as it can, the
	// planner inside the tick: for simulators.
	Lockstep bool `yaml:"lockstep"`
	// DurationS ends the run. 0: no limit.
	DurationS float64 `yaml:"duration_s"`
	// Episodes ends the run after so many. 0: no limit.
	Episodes int `yaml:"episodes"`
	// EpisodeS is the length of an episode, rounded to periods. 0: one
	// episode without end.
	EpisodeS float64 `yaml:"episode_s"`
	// Seed is that of the episodes' initial states.
	Seed uint64 `yaml:"seed"`
	// HostUser is the user that the host process runs as. Empty: the same
	// as the control process.
	HostUser string `yaml:"host_user"`
	// HostTimeoutS is the silence of the host process after which the
	// robot is halted.
	HostTimeoutS float64 `yaml:"host_timeout_s"`
	// SimulatorWaitS is how long a simulated robot stands still, and its time
	// with it, for a host process that is alive but slow, before it is halted:
	// in [0, 2]. It counts only for robots whose time passes with their acts
	// alone (robot.driver rover, or bridge in mode lockstep): no other robot
	// ever waits. 0: not at all.
	SimulatorWaitS float64 `yaml:"simulator_wait_s"`
	// StateDir is the folder in which the belief outlives the run: it is
	// written down after every label and every log.snapshot_s, and the next
	// run goes on from it. It must be of the same model, controller.lambda,
	// rho and sigma. Empty: every run starts from nothing.
	StateDir string `yaml:"state_dir"`
	// Shadow runs everything but the actuators: the robot is sensed, neither
	// armed nor moved, while the controller decides as if it were, from the
	// moment at which it would have been armed.
	Shadow bool `yaml:"shadow"`
}

// Steps returns the periods of an episode, 0 for one without end.
func (r Run) Steps(period time.Duration) int {
	if r.EpisodeS == 0 {
		return 0
	}
	return max(1, int(math.Round(r.EpisodeS/period.Seconds())))
}

// Default is the embedded rover with an oracle at its side, as `optibfm run`
// starts it, before any file is read.
func Default() File {
	robot := rover.DefaultConfig()
	loop := rtloop.DefaultConfig()
	loop.PeriodMS = robot.PeriodMS
	return File{
		Version:    Version,
		Robot:      Robot{Driver: DriverRover, Rover: robot, Composite: Composite{Name: "robot", I2CTimeoutMS: 10}},
		Model:      Model{Bundle: EmbeddedRover, Backend: BackendNative, TensorFlow: tensorflow.DefaultConfig()},
		Controller: controller.DefaultConfig(),
		Loop:       loop,
		Safety:     Safety{Arm: ArmAutomatic, AfterStop: AfterStopEnd},
		Operator: Operator{
			Source:    SourceScripted,
			LabelMode: ModeAny,
			Scripted:  scripted.DefaultConfig(),
			Keyboard:  keyboard.DefaultConfig(),
			Evdev:     evdev.DefaultConfig(),
			GPIO:      gpio.DefaultConfig(),
			Web:       web.DefaultConfig(),
		},
		Log: Log{Enabled: true, Dir: "logs", FlushMS: 200, SnapshotS: 10, MinFreeGB: 0.1},
		Run: Run{DurationS: 60, EpisodeS: 10, HostTimeoutS: 1, SimulatorWaitS: 2},
	}
}
