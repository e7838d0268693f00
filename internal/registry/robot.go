package registry

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"optibfm/hal"
	"optibfm/internal/sections"
)

// RobotKind is the kind of drivers of whole robots: the sections of robot, chosen by robot.driver.
type RobotKind struct{}

var robotList = sections.NewList("robot", "driver", "hold")

// List implements Kind.
func (RobotKind) List() *sections.List { return robotList }

// ChosenBy implements Kind.
func (RobotKind) ChosenBy() string { return "driver" }

// OmitsDefault implements Kind.
func (RobotKind) OmitsDefault() bool { return false }

// Opening holds the arguments to open a robot.
type Opening struct {
	Period time.Duration // of the loop
	// Now is the clock of the samples, CLOCK_MONOTONIC nanoseconds. Nil: simulated time.
	Now func() int64
	// SimulatorWait is the shortest deadline of a simulator (run.simulator_wait_s).
	SimulatorWait time.Duration
}

var openers = map[string]func(context.Context, any, Opening) (hal.Robot, error){}

// AddRobot registers a driver of a whole robot. open returns it halted.
func AddRobot[C any](name, doc string, defaults C, open func(context.Context, C, Opening) (hal.Robot, error)) {
	robotList.Add(sections.Section{Name: name, Doc: doc, Default: defaults})
	openers[name] = func(ctx context.Context, section any, o Opening) (hal.Robot, error) {
		robot, err := open(ctx, section.(C), o)
		if err != nil { // robot may be a nil pointer in an interface
			return nil, err
		}
		return robot, nil
	}
}

// OpenRobot opens the robot of a driver, halted.
func OpenRobot(ctx context.Context, driver string, section any, o Opening) (hal.Robot, error) {
	open, ok := openers[driver]
	if !ok {
		return nil, fmt.Errorf("robot.driver: unknown (%q); use one of %v", driver, robotList.Names())
	}
	return open(ctx, section, o)
}

// Validator is implemented by sections with rules that depend on several keys. The form of its
// errors is "package: key: ..." or "package: key ...", joined.
type Validator interface{ Validate() error }

// Describer is implemented by sections that know the channels of their robot before it is opened.
type Describer interface {
	Describe(period time.Duration) (hal.Spec, error)
}

// Simulator is implemented by sections of robots that may have no actuators.
type Simulator interface{ Simulated() bool }

// OwnTime is implemented by sections of robots whose samples may count the time of a simulation,
// which advances with each action, instead of CLOCK_MONOTONIC.
type OwnTime interface{ SimulatedTime() bool }

// Periodic is implemented by sections that have the control period too, in milliseconds.
type Periodic interface{ LoopPeriodMS() float64 }

// Holding is implemented by sections of robots that stand still in one way: a value of robot.hold.
type Holding interface{ StandsStill() string }

// Tasked is implemented by sections whose key task has values that are known before the robot is
// opened.
type Tasked interface{ Tasks() []string }

// Filed is implemented by sections that name files of this computer: the path of each key with one.
type Filed interface{ Files() map[string]string }

// RepositoryAdvice is the fix for a relative path outside the folder that the ready-made
// configurations expect.
const RepositoryAdvice = "run this command in the folder of the repository, which has models/ and scripts/, " +
	"or give an absolute path"

// MissingFile returns the fix for a file of a key where nothing has its path.
func MissingFile(key, path string) string {
	if filepath.IsAbs(path) {
		return "correct " + key
	}
	return RepositoryAdvice + " in " + key
}

// PartChecker is implemented by sections whose parts have rules of their own. CheckParts reports
// the mistakes of each part under its key, such as devices[0].mcu.
type PartChecker interface {
	CheckParts(report func(key string, err error))
}

// Parted is implemented by sections of robots with several devices.
type Parted interface {
	// Shares returns each device's part of the longest duration of the robot's calls.
	Shares() []hal.Share
	// Unguarded names the devices with outputs and without a deadman longer than a period.
	Unguarded(period time.Duration) []string
}

// IsSimulated reports whether the robot of a section has no actuators.
func IsSimulated(section any) bool {
	s, ok := section.(Simulator)
	return ok && s.Simulated()
}

// HasOwnTime reports whether the samples of a section's robot count the time of a simulation.
func HasOwnTime(section any) bool {
	s, ok := section.(OwnTime)
	return ok && s.SimulatedTime()
}

// Halting is implemented by sections of robots whose devices are halted separately after their
// program died.
type Halting interface {
	HaltTasks(period time.Duration, now func() int64) ([]HaltTask, error)
}

// HaltTask halts one device. Tasks of the same line run one after the other.
type HaltTask struct {
	Name, Key, Line string
	Halt            func(context.Context) (notes []string, err error)
}

// Wired is implemented by sections of robots with devices at buses, ports and lines of this
// computer.
type Wired interface {
	Connections() []Connection
	// OpenI2C opens a bus to read one register of a device.
	OpenI2C(path string) (I2C, error)
}

// The kinds of connections.
const (
	OnI2C    = "i2c"
	OnSerial = "serial"
	OnCAN    = "can"
	OnLine   = "gpio" // a GPIO line besides the bus
)

// Connection is the place of a device.
type Connection struct {
	Device  string // its name
	Kind    string
	Name    string // bus, port, interface or line
	Address uint16 // on an I²C bus
}

// I2C is an open I²C bus.
type I2C interface {
	Tx(addr uint16, w, r []byte) error
	Close() error
}

// Arena is implemented by sections of robots that the full screen draws from above, in a square.
type Arena interface {
	Side() float64 // m
	// Pose returns the place of an observation from the centre of the square, in m, and the heading
	// in rad.
	Pose(obs []float32) (x, y, heading float64)
	// BestReward is the largest reward of a task at a place, in half sides from the centre.
	BestReward(task string, x, y float64) float64
	// DescribeTask describes a task in one line, "" if there is none with that name.
	DescribeTask(task string) string
}

// The statuses of a finding.
const (
	StatusOK   = "ok"
	StatusWarn = "warn"
	StatusFail = "fail"
	StatusSkip = "skip" // not checked; Found has the reason
)

// Finding is the result of a check of `optibfm doctor`.
type Finding struct {
	Status string
	Found  string
	Fix    string // empty if none is needed
}

// Computer gives checks access to this computer.
type Computer interface {
	// Exists reports whether a file exists.
	Exists(path string) bool
	// Access returns an error if this user may not read and write a file.
	Access(path string) error
	// User is the name of this user.
	User() string
}

var checks = map[string]func(context.Context, any, Computer) []Finding{}

// AddCheck registers a check of `optibfm doctor` for a driver. It opens and moves nothing, and ends
// within a minute.
func AddCheck[C any](driver string, check func(context.Context, C, Computer) []Finding) {
	checks[driver] = func(ctx context.Context, section any, c Computer) []Finding { return check(ctx, section.(C), c) }
}

// Check returns the check of a driver, nil if it has none.
func Check(driver string) func(ctx context.Context, section any, c Computer) []Finding {
	return checks[driver]
}

// RemoteControlled is implemented by sections of robots whose driver may read a remote control
// (operator.source: remote).
type RemoteControlled interface{ HasRemote() bool }
