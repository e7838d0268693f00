package controller

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"optibfm/hal"
)

// Safety configures what stops the robot besides faults, and what arming
// requires. The zero value has no conditions.
type Safety struct {
	// Limits are ranges of observation channels, such as a tilt. A value
	// outside stops the robot at once. In contrast, a value outside the
	// channel's plausible range is a failed measurement: a bad tick.
	Limits []StopLimit
	// MaxSampleAge is the largest age of a sample at Wake; an older one stops
	// the robot. 0: no limit. It requires samples with CLOCK_MONOTONIC times.
	MaxSampleAge time.Duration
	// FrozenTicks is the number of periods without a change, to the last bit,
	// that stops the robot; 0: no limit.
	FrozenTicks uint64
	// FrozenChannels are the channels that must each change. If it is empty,
	// the observation as a whole must change.
	FrozenChannels []string
	// RequireDeadman refuses to arm a robot unless it is hal.DeadmanTimer and
	// reports, once armed, a deadman longer than a period.
	RequireDeadman bool
	// Start is the motion after arming, and Rest the one before an operator's disarming.
	Start, Rest Motion
	// MaxPositionAge is the largest age of the positions at which Arm begins. 0: no limit.
	MaxPositionAge time.Duration
	// Simulated arms a robot without checks of its position: a simulator, or one that is not moved.
	Simulated bool
}

// StopLimit is the permitted range of an observation channel.
type StopLimit struct {
	Channel string  `yaml:"channel"`           // name of an observation channel
	Min     float64 `yaml:"min" rule:"finite"` // smallest permitted value, in the channel's unit
	Max     float64 `yaml:"max" rule:"finite"` // largest permitted value, above min
}

var (
	errStopPressed = errors.New("the emergency stop is pressed, or its line is lost; release it, or repair the line")
	errStale       = errors.New("the newest sample is older than safety.max_sample_age_ms; check the sensor")
	errFrozen      = errors.New("a sensor value has not changed for safety.frozen_ticks; check the sensor")
	errNoDeadman   = errors.New("the robot has no deadman longer than a period: without commands it would not stop; " +
		"set the device's deadman, or name another one in safety.external_deadman")
)

// stopMonitor checks the conditions in Safety. Its errors are allocated in
// advance: a tick allocates nothing.
type stopMonitor struct {
	input  hal.StopInput // may be nil
	limits []stopLimit
	maxAge int64 // ns, 0: none
	frozen freezeDetector
}

type stopLimit struct {
	index    int
	min, max float32 // rounded as samples are: 0.1 is within 0.1
	err      error
}

// newStopMonitor resolves channel names for a robot. Its errors wrap ErrConfig.
func newStopMonitor(s Safety, robot hal.Robot) (stopMonitor, error) {
	spec := robot.Spec()
	w := stopMonitor{maxAge: int64(s.MaxSampleAge)}
	w.input, _ = robot.(hal.StopInput)
	for _, l := range s.Limits {
		i, err := channelIndex(spec, l.Channel)
		if err != nil {
			return w, fmt.Errorf("%w: limits: %w", ErrConfig, err)
		}
		if !(l.Min < l.Max) || math.IsInf(l.Min, 0) || math.IsInf(l.Max, 0) {
			return w, fmt.Errorf("%w: limits: %s: found %g to %g; give finite numbers, min below max",
				ErrConfig, l.Channel, l.Min, l.Max)
		}
		w.limits = append(w.limits, stopLimit{i, float32(l.Min), float32(l.Max),
			fmt.Errorf("%s left its range of %g to %g%s; bring the robot back into it",
				l.Channel, l.Min, l.Max, unitSuffix(spec.Obs[i].Unit))})
	}
	var err error
	w.frozen, err = newFreezeDetector(s, spec)
	return w, err
}

func unitSuffix(unit string) string {
	if unit == "" {
		return ""
	}
	return " " + unit
}

func channelIndex(spec hal.Spec, name string) (int, error) {
	i := slices.IndexFunc(spec.Obs, func(c hal.Channel) bool { return c.Name == name })
	if i >= 0 {
		return i, nil
	}
	var names []string
	for _, c := range spec.Obs {
		names = append(names, c.Name)
	}
	return 0, fmt.Errorf("%s has no observation channel %q; use one of %v", spec.Name, name, names)
}

// pressed reports whether the emergency stop is pressed.
func (w *stopMonitor) pressed() bool { return w.input != nil && w.input.StopPressed() }

// check returns the stop condition that holds in t. usable: the readings are plausible.
func (w *stopMonitor) check(t *Tick, readings []float32, usable bool) (Fault, error) {
	switch {
	case w.pressed():
		return FaultEStop, errStopPressed
	case !usable && t.SenseAt == 0: // no sample yet: the guard counts the bad ticks
		return FaultNone, nil
	case w.maxAge > 0 && t.Wake-t.SenseAt > w.maxAge:
		return FaultStaleSample, errStale
	case !usable:
		return FaultNone, nil
	}
	for i := range w.limits {
		l := &w.limits[i]
		if v := readings[l.index]; v < l.min || v > l.max {
			return FaultLimit, l.err
		}
	}
	if w.frozen.observe(t.Index, readings) {
		return FaultFrozen, errFrozen
	}
	return FaultNone, nil
}

// freezeDetector detects values that do not change.
type freezeDetector struct {
	after    uint64 // periods; 0: never
	channels []int  // each must change; none: the whole must change
	last     []float32
	changed  []uint64 // tick of the last change of each channel, or of the whole
	started  bool
}

func newFreezeDetector(s Safety, spec hal.Spec) (freezeDetector, error) {
	f := freezeDetector{
		after: s.FrozenTicks, last: make([]float32, len(spec.Obs)),
		changed: make([]uint64, max(1, len(s.FrozenChannels))),
	}
	for _, name := range s.FrozenChannels {
		i, err := channelIndex(spec, name)
		if err != nil {
			return f, fmt.Errorf("%w: frozen_channels: %w", ErrConfig, err)
		}
		f.channels = append(f.channels, i)
	}
	return f, nil
}

// observe reports whether a value has not changed for too long.
func (f *freezeDetector) observe(tick uint64, readings []float32) bool {
	if f.after == 0 {
		return false
	}
	if !f.started {
		f.started = true
		for i := range f.changed {
			f.changed[i] = tick
		}
	} else {
		f.recordChanges(tick, readings)
	}
	copy(f.last, readings)
	oldest := tick - slices.Min(f.changed)
	return oldest >= f.after
}

func (f *freezeDetector) recordChanges(tick uint64, readings []float32) {
	if len(f.channels) == 0 && !slices.Equal(f.last, readings) {
		f.changed[0] = tick
	}
	for i, c := range f.channels {
		if f.last[c] != readings[c] {
			f.changed[i] = tick
		}
	}
}
