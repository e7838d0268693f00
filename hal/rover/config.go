package rover

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Config describes a rover and its arena. Start from [DefaultConfig]; the
// embedded model was trained on its geometry.
type Config struct {
	// Task names the reward of the rover, one of [Tasks].
	Task string `yaml:"task"`
	// Seed of slip and sensor noise, and of the initial state before the
	// first Reset.
	Seed uint64 `yaml:"seed"`

	PeriodMS    float64 `yaml:"period_ms"`     // control period, in [1, 1000]
	ArenaM      float64 `yaml:"arena_m"`       // side of the square arena
	RadiusM     float64 `yaml:"radius_m"`      // of the round body
	TrackM      float64 `yaml:"track_m"`       // distance between the wheels
	AxleM       float64 `yaml:"axle_m"`        // distance from the axle forward to the body's centre
	MaxSpeedMPS float64 `yaml:"max_speed_mps"` // of a wheel at command 1
	MotorLagMS  float64 `yaml:"motor_lag_ms"`  // time constant of the motors
	SlipStd     float64 `yaml:"slip_std"`      // of each wheel in each period, as a part of its speed

	Noise Noise `yaml:"noise"`

	// Now is the clock of Sense, in CLOCK_MONOTONIC nanoseconds. Nil means
	// simulated time, which starts at 0 and advances one period per Act.
	Now func() int64 `yaml:"-"`
}

// Noise holds the standard deviations of the sensors' noise; 0 means none.
type Noise struct {
	PositionM   float64 `yaml:"position_m"`
	HeadingRad  float64 `yaml:"heading_rad"`
	SpeedMPS    float64 `yaml:"speed_mps"`
	YawRateRadS float64 `yaml:"yaw_rate_radps"`
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
	errs := []error{
		within("period_ms", c.PeriodMS, 1, 1000),
		within("arena_m", c.ArenaM, 0.1, 1000),
		within("radius_m", c.RadiusM, 0.001, c.ArenaM/4),
		within("track_m", c.TrackM, 0.001, 100),
		within("axle_m", c.AxleM, 0, c.ArenaM/4),
		within("max_speed_mps", c.MaxSpeedMPS, 0.001, 100),
		within("motor_lag_ms", c.MotorLagMS, 0, 10_000),
		within("slip_std", c.SlipStd, 0, 1),
		within("noise.position_m", c.Noise.PositionM, 0, c.ArenaM),
		within("noise.heading_rad", c.Noise.HeadingRad, 0, math.Pi),
		within("noise.speed_mps", c.Noise.SpeedMPS, 0, 100),
		within("noise.yaw_rate_radps", c.Noise.YawRateRadS, 0, 100),
	}
	if _, ok := findTask(c.Task); !ok {
		errs = append(errs, unknownTask(c.Task))
	}
	return errors.Join(errs...)
}

func within(key string, v, low, high float64) error {
	if v >= low && v <= high {
		return nil
	}
	return fmt.Errorf("rover: %s is out of range (%g); choose a value from %g to %g", key, v, low, high)
}

// ErrUnknownTask is wrapped by the errors for a task that [Tasks] does not
// list.
var ErrUnknownTask = errors.New("unknown task")

func unknownTask(name string) error {
	names := make([]string, len(tasks))
	for i, t := range tasks {
		names[i] = t.Name
	}
	return fmt.Errorf("rover: %w (%q); choose one of %s", ErrUnknownTask, name, strings.Join(names, ", "))
}
