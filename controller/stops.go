package controller

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"optibfm/hal"
)

// Safety says what stops the robot besides its faults, and what it must have
// to be armed. The zero value asks for nothing.
type Safety struct {
	// Limits are the ranges that observation channels may not leave, such as
	// a tilt: a value outside is a stop at once. (The plausible range of a
	// channel is another thing: what lies outside of that was not measured,
	// and makes a bad tick.)
	Limits []StopLimit
	// MaxSampleAge is the age of a sample, against Wake, that stops the robot;
	// 0: no limit. For robots whose samples have CLOCK_MONOTONIC times.
	MaxSampleAge time.Duration
	// FrozenTicks is the number of periods for which nothing that is sensed
	// may stand still, to the last bit, without stopping the robot; 0: no
	// limit.
	FrozenTicks uint64
	// FrozenChannels are looked at one by one; with none the observation as
	// a whole is.
	FrozenChannels []string
	// RequireDeadman lets only a robot be armed that is hal.Guarded and says,
	// armed, that its deadman is set, to more than a period.
	RequireDeadman bool
}

// StopLimit is a range that an observation channel may not leave.
type StopLimit struct {
	Channel string  `yaml:"channel"` // name of an observation channel
	Min     float64 `yaml:"min"`     // least value that does not stop the robot, in the channel's unit
	Max     float64 `yaml:"max"`     // greatest, above min
}

var (
	errStopPressed = errors.New("the emergency stop is pressed, or its line is lost: release it, or mend the line")
	errStale       = errors.New("the newest sample is older than safety.max_sample_age_ms: see what holds the sensor up")
	errFrozen      = errors.New("a sensor gives the same value for safety.frozen_ticks: see whether it still measures")
	errNoDeadman   = errors.New("the robot has no deadman that is set and longer than a period, and would not stop by itself: set the device's own, or say in safety.external_deadman which other one there is")
)

// stops looks for what stops a robot at once. Its errors are made beforehand:
// a tick allocates nothing.
type stops struct {
	input  hal.StopInput // may be nil
	limits []stopLimit
	maxAge int64 // ns, 0: none
	frozen frozen
}

type stopLimit struct {
	index    int
	min, max float32 // rounded as samples are: 0.1 is within 0.1
	err      error
}

// newStops fits the rules to a robot. A mistake wraps ErrConfig.
func newStops(s Safety, robot hal.Robot) (stops, error) {
	spec := robot.Spec()
	w := stops{maxAge: int64(s.MaxSampleAge)}
	w.input, _ = robot.(hal.StopInput)
	for _, l := range s.Limits {
		i, err := channelIndex(spec, l.Channel)
		if err != nil {
			return w, fmt.Errorf("%w: limits: %w", ErrConfig, err)
		}
		if !(l.Min < l.Max) || math.IsInf(l.Min, 0) || math.IsInf(l.Max, 0) {
			return w, fmt.Errorf("%w: limits: %s: found %g to %g: give finite numbers, min below max", ErrConfig, l.Channel, l.Min, l.Max)
		}
		w.limits = append(w.limits, stopLimit{i, float32(l.Min), float32(l.Max),
			fmt.Errorf("%s left its range of %g to %g%s: bring the robot back into it", l.Channel, l.Min, l.Max, inUnit(spec.Obs[i].Unit))})
	}
	var err error
	w.frozen, err = newFrozen(s, spec)
	return w, err
}

func inUnit(unit string) string {
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
	return 0, fmt.Errorf("%s has no observation channel %q: use one of %v", spec.Name, name, names)
}

// pressed is the emergency stop.
func (w *stops) pressed() bool { return w.input != nil && w.input.StopPressed() }

// check looks at what was just sensed; usable is whether it is plausible.
func (w *stops) check(t *Tick, usable bool) (Fault, error) {
	switch {
	case w.pressed():
		return FaultEStop, errStopPressed
	case w.maxAge > 0 && t.Wake-t.SenseAt > w.maxAge:
		return FaultStaleSample, errStale
	case !usable:
		return FaultNone, nil
	}
	for i := range w.limits {
		l := &w.limits[i]
		if v := t.Obs[l.index]; v < l.min || v > l.max {
			return FaultLimit, l.err
		}
	}
	if w.frozen.observe(t) {
		return FaultFrozen, errFrozen
	}
	return FaultNone, nil
}

// frozen notices values that stand still.
type frozen struct {
	after    uint64 // periods; 0: never
	channels []int  // looked at one by one; none: all together
	last     []float32
	changed  []uint64 // the tick of the last change, of each channel or of the whole
	begun    bool
}

func newFrozen(s Safety, spec hal.Spec) (frozen, error) {
	f := frozen{after: s.FrozenTicks, last: make([]float32, len(spec.Obs)), changed: make([]uint64, max(1, len(s.FrozenChannels)))}
	for _, name := range s.FrozenChannels {
		i, err := channelIndex(spec, name)
		if err != nil {
			return f, fmt.Errorf("%w: frozen_channels: %w", ErrConfig, err)
		}
		f.channels = append(f.channels, i)
	}
	return f, nil
}

// observe reports whether something has stood still for too long.
func (f *frozen) observe(t *Tick) bool {
	if f.after == 0 {
		return false
	}
	if !f.begun {
		f.begun = true
		for i := range f.changed {
			f.changed[i] = t.Index
		}
	} else {
		f.note(t)
	}
	copy(f.last, t.Obs)
	oldest := t.Index - slices.Min(f.changed)
	return oldest >= f.after
}

func (f *frozen) note(t *Tick) {
	if len(f.channels) == 0 && !slices.Equal(f.last, t.Obs) {
		f.changed[0] = t.Index
	}
	for i, c := range f.channels {
		if f.last[c] != t.Obs[c] {
			f.changed[i] = t.Index
		}
	}
}
