package optibfm

import (
	"context"
	"io/fs"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/hal"
	"optibfm/internal/cli"
	"optibfm/internal/registry"
	"optibfm/internal/sections"
	"optibfm/rewardsrc"
	"optibfm/tflite"
)

// Main runs the command line and ends the process: os.Args are a command such as run, arm or
// replay, and its flags.
func Main() { cli.Main() }

// RegisterRobot registers a driver of a robot: the value name of robot.driver. The section
// robot.NAME has the type C and, without a file, the values of defaults. open returns the robot
// halted; the control process calls it.
func RegisterRobot[C any](name string, defaults C, open func(C) (hal.Robot, error)) {
	registry.AddRobot(name, "Settings of the driver "+name+".", defaults,
		func(_ context.Context, c C, _ registry.Opening) (hal.Robot, error) { return open(c) })
}

// RegisterSource registers a label device: the value name of operator.source, with the section
// operator.NAME. Its labels good and bad are those of operator.keyboard, unless C has the method
// Scale() (good, bad float64). The host process, which has no real-time rights, calls open. notice
// may be called from any goroutine: it shows the operator a message, such as a lost device.
func RegisterSource[C any](
	name string, defaults C, open func(c C, notice func(rewardsrc.Notice)) (rewardsrc.Source, error),
) {
	sections.AddSource(name, "Settings of the label device "+name+".", defaults, open)
}

// RegisterBackend registers a backend, which evaluates the planner's candidates, for example on a
// GPU: the value name of model.backend, with the section model.NAME. open prepares it for a bundle;
// the host process calls it, and its errors say what is missing: loop.posture strict then refuses
// to run, warn plans with the native networks. The returned model has the bundle's sizes, and
// Search obeys [tflite.Model]. The optional methods of the model are Close (of tests and commands;
// a run ends with its process) and String, lines about its device for `model backend`. That command
// compares its scores with the native ones. A section of type struct{} has no keys.
func RegisterBackend[C any](
	name string, defaults C, open func(c C, bundle *tflite.Bundle, w Workload) (tflite.Model, error),
) {
	registry.AddBackend(name, "Settings of the backend "+name+".", defaults, open)
}

// Workload is the largest work of a backend: the candidates of a search, at least 1, and the
// processors that a search may use.
type Workload = registry.Workload

// RegisterModel registers a model bundle that is part of the program: the value name of
// model.bundle, which begins with "embedded:". The first one is the default.
func RegisterModel(name string, bundle fs.FS) { registry.AddModel(name, bundle) }

// RegisterConfig registers a ready-made configuration, as text. The first one is the default of
// `run`.
func RegisterConfig(name, text string) { configs.Register(name, text) }

// RegisterCommand adds a command.
func RegisterCommand(command func() *cobra.Command) { cli.Add(command) }

// RegisterCheck gives a driver a check of `optibfm doctor`. It opens and moves nothing, and ends
// within a minute.
func RegisterCheck[C any](driver string, check func(context.Context, C, Computer) []Finding) {
	registry.AddCheck(driver, check)
}

// Finding is the result of a check.
type Finding = registry.Finding

// Computer gives checks access to this computer.
type Computer = registry.Computer
