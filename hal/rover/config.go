package rover

import (
	"errors"
	"fmt"
	"strings"

	"optibfm/internal/keys"
)

// Config describes a rover and its arena. Start from [DefaultConfig]; the
// embedded model was trained on its geometry.
type Config struct {
	// Task names the reward of the rover, one of [Tasks].
	Task string `yaml:"task"`
	// Seed of slip and sensor noise, and of the initial state before the
	// first Reset.
	Seed uint64 `yaml:"seed" rule:"[0, inf)"`

	PeriodMS    float64 `yaml:"period_ms" rule:"[1, 1000]"`        // control period, in [1, 1000]
	ArenaM      float64 `yaml:"arena_m" rule:"[0.1, 1000]"`        // side of the square arena
	RadiusM     float64 `yaml:"radius_m" rule:"[0.001, inf)"`      // of the round body
	TrackM      float64 `yaml:"track_m" rule:"[0.001, 100]"`       // distance between the wheels
	AxleM       float64 `yaml:"axle_m" rule:"[0, inf)"`            // distance from the axle forward to the body's centre
	MaxSpeedMPS float64 `yaml:"max_speed_mps" rule:"[0.001, 100]"` // of a wheel at command 1
	MotorLagMS  float64 `yaml:"motor_lag_ms" rule:"[0, 10000]"`    // time constant of the motors
	SlipStd     float64 `yaml:"slip_std" rule:"[0, 1]"`            // of each wheel in each period, as a share of its speed

	Noise Noise `yaml:"noise"`

	// Now is the clock of Sense, in CLOCK_MONOTONIC nanoseconds. Nil means
	// simulated time, which starts at 0 and advances one period per Act.
	Now func() int64 `yaml:"-"`
}

// Choices lists the values of a key that has choices.
func (Config) Choices(key string) []string { return map[string][]string{"task": taskNames()}[key] }

// Noise holds the standard deviations of the sensors' noise; 0 means none.
type Noise struct {
	PositionM   float64 `yaml:"position_m" rule:"[0, inf)"`
	HeadingRad  float64 `yaml:"heading_rad" rule:"[0, pi]"`
	SpeedMPS    float64 `yaml:"speed_mps" rule:"[0, 100]"`
	YawRateRadS float64 `yaml:"yaw_rate_radps" rule:"[0, 100]"`
}

// DefaultConfig is the rover that the embedded model was trained on: a 4 m
// arena, 1.5 m/s, 20 Hz.
func DefaultConfig() Config {
	return Config{
		Task:        "corner",
		PeriodMS:    50,
		ArenaM:      4,
		RadiusM:     0.15,
		TrackM:      0.5,
		AxleM:       0.1,
		MaxSpeedMPS: 1.5,
		MotorLagMS:  150,
		SlipStd:     0.05,
		Noise: Noise{
			PositionM:   0.005,
			HeadingRad:  0.01,
			SpeedMPS:    0.01,
			YawRateRadS: 0.02,
		},
	}
}

// Validate returns an error that names each key with an invalid value.
func (c Config) Validate() error {
	if _, ok := findTask(c.Task); !ok {
		return unknownTask(c.Task)
	}
	errs := []error{keys.Check("rover", c)}
	for _, x := range []struct {
		key       string
		value, to float64
	}{
		{"radius_m", c.RadiusM, c.ArenaM / 4}, {"axle_m", c.AxleM, c.ArenaM / 4},
		{"noise.position_m", c.Noise.PositionM, c.ArenaM},
	} {
		if x.value > x.to {
			errs = append(errs, fmt.Errorf("rover: %s is too large for the arena (%g); choose at most %g",
				x.key, x.value, x.to))
		}
	}
	return errors.Join(errs...)
}

// ErrUnknownTask is wrapped by the errors for a task that [Tasks] does not
// list.
var ErrUnknownTask = errors.New("unknown task")

func taskNames() []string {
	names := make([]string, len(tasks))
	for i, t := range tasks {
		names[i] = t.Name
	}
	return names
}

func unknownTask(name string) error {
	return fmt.Errorf("rover: task: %w (%q); choose one of %s", ErrUnknownTask, name, strings.Join(taskNames(), ", "))
}
