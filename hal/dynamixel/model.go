package dynamixel

import (
	"fmt"
	"math"
	"strings"
)

// Registers of the X series, the same in all these models (e-manual, "Control Table" of
// XL330-M288-T, XL430-W250-T and XM430-W350).
const (
	regReturnDelay   = 9 // 1 byte, 2 µs
	regDriveMode     = 10
	regOperatingMode = 11
	regLimits        = 36 // PWM 2, current 2, 4 unused here, velocity 4, max. position 4, min. position 4
	regTorqueEnable  = 64
	regStatusReturn  = 68
	regHardwareError = 70
	regWatchdog      = 98 // 1 byte, 20 ms; 255 is tripped
	regGoalPWM       = 100
	regGoalCurrent   = 102
	regGoalVelocity  = 104
	regGoalPosition  = 116
	regPresent       = 126 // current 2, velocity 4, position 4

	limitsSize  = 20
	goalsSize   = regGoalPosition + 4 - regWatchdog // the block of watchdog and all goals
	presentSize = 10
)

const (
	driveTorqueByGoal = 0x08 // a goal switches the torque on
	answersAll        = 2    // status return level: every instruction is answered
	watchdogTripped   = 255
	returnDelayUnit   = 2e-6 // s
)

const (
	stepsPerTurn = 4096
	middle       = 2048
	radPerStep   = 2 * math.Pi / stepsPerTurn
	radPerSecond = 0.229 * 2 * math.Pi / 60 // one unit of velocity is 0.229 rev/min
	fullPWM      = 885                      // units of 0.113 %
	fullLoad     = 1000                     // units of 0.1 %
	maxExtended  = 1_048_575                // largest goal in extended position mode
)

// model describes a servo model.
type model struct {
	name   string
	number uint16
	ampere float64 // A per unit of current; 0: it measures load, and has no current mode
}

var models = []model{
	{"XL330-M077", 1190, 0.001},
	{"XL330-M288", 1200, 0.001},
	{"XL430-W250", 1060, 0},
	{"XM430-W210", 1030, 0.00269},
	{"XM430-W350", 1020, 0.00269},
}

func modelByNumber(number uint16) (model, error) {
	for _, m := range models {
		if m.number == number {
			return m, nil
		}
	}
	return model{}, fmt.Errorf("unsupported model number (%d); supported: %s", number, strings.Join(Models(), ", "))
}

func modelByName(name string) (m model, ok bool) {
	for _, m := range models {
		if m.name == name {
			return m, true
		}
	}
	return model{}, false
}

// Models returns the names of the supported models.
func Models() []string {
	names := make([]string, len(models))
	for i, m := range models {
		names[i] = m.name
	}
	return names
}

// The names of the modes.
const (
	Position         = "position"
	ExtendedPosition = "extended_position"
	Velocity         = "velocity"
	Current          = "current"
	PWM              = "pwm"
)

type mode struct {
	name    string
	number  byte // register 11
	goal    int  // register
	size    int
	unit    string
	perStep float64 // in unit; 0 for current, which depends on the model
	zero    int32
}

var modes = []mode{
	{Current, 0, regGoalCurrent, 2, "A", 0, 0},
	{Velocity, 1, regGoalVelocity, 4, "rad/s", radPerSecond, 0},
	{Position, 3, regGoalPosition, 4, "rad", radPerStep, middle},
	{ExtendedPosition, 4, regGoalPosition, 4, "rad", radPerStep, middle},
	{PWM, 16, regGoalPWM, 2, "", 1.0 / fullPWM, 0},
}

// Modes returns the names of the modes.
func Modes() []string { return []string{Position, ExtendedPosition, Velocity, Current, PWM} }

func modeByName(name string) (m mode, ok bool) {
	for _, m := range modes {
		if m.name == name {
			return m, true
		}
	}
	return mode{}, false
}
