package hal

import (
	"errors"
	"fmt"
	"math"
	"unicode"
	"unicode/utf8"
)

// The limits of Validate. They are far above the size of any robot and bound the
// data from a wire.
const (
	MaxChannels = 1024 // channels in an observation, and in an action
	MaxName     = 128  // bytes in a robot's, a channel's or a unit's name
)

// Validate returns the first error of s. The robot and its channels need names,
// unique in their list. There must be 1 to [MaxChannels] channels of each kind.
// Limits of actions must be finite with Min < Max and Failsafe between them,
// their disarmed output finite, and rate limits not negative. Limits of
// observations must be both 0, or finite with Min < Max. The period must be
// positive.
func (s Spec) Validate() error {
	if err := checkName(s.Name); err != nil {
		return fmt.Errorf("hal: spec: name of the robot: %w", err)
	}
	if s.Period <= 0 {
		return fmt.Errorf("hal: spec of %s: the period is not positive (%v)", s.Name, s.Period)
	}
	if err := checkChannels(s.Obs, checkObs); err != nil {
		return fmt.Errorf("hal: spec of %s: obs: %w", s.Name, err)
	}
	if err := checkChannels(s.Action, checkActionChannel); err != nil {
		return fmt.Errorf("hal: spec of %s: action: %w", s.Name, err)
	}
	return nil
}

// CheckAction returns an error for an action that must not reach the actuators:
// one of the wrong length, or with an element that is not finite or outside the
// limits of its channel. It allocates only when it returns an error. It is the
// last check of a driver and does not clip.
func (s *Spec) CheckAction(action []float32) error {
	if len(action) != len(s.Action) {
		return fmt.Errorf("hal: %s: action has the wrong length (%d, want %d)", s.Name, len(action), len(s.Action))
	}
	for i, v := range action {
		c := &s.Action[i]
		// Round the limits like the action: 0.1 must be within 0.1.
		if v >= float32(c.Min) && v <= float32(c.Max) {
			continue
		}
		return fmt.Errorf("hal: %s: action %q is not within its limits (%v, limits %v to %v)",
			s.Name, c.Name, v, c.Min, c.Max)
	}
	return nil
}

func checkChannels(channels []Channel, check func(*Channel) error) error {
	if len(channels) == 0 {
		return errors.New("no channels")
	}
	if len(channels) > MaxChannels {
		return fmt.Errorf("too many channels (%d): at most %d", len(channels), MaxChannels)
	}
	first := make(map[string]int, len(channels))
	for i := range channels {
		c := &channels[i]
		if err := checkName(c.Name); err != nil {
			return fmt.Errorf("channel %d: name: %w", i, err)
		}
		if j, taken := first[c.Name]; taken {
			return fmt.Errorf("channels %d and %d have the same name (%q)", j, i, c.Name)
		}
		first[c.Name] = i
		if err := checkText(c.Unit); err != nil {
			return fmt.Errorf("channel %d (%q): unit: %w", i, c.Name, err)
		}
		if err := check(c); err != nil {
			return fmt.Errorf("channel %d (%q): %w", i, c.Name, err)
		}
	}
	return nil
}

func checkObs(c *Channel) error {
	if c.Min == 0 && c.Max == 0 {
		return nil
	}
	return checkLimits(c)
}

func checkActionChannel(c *Channel) error {
	if err := checkLimits(c); err != nil {
		return err
	}
	if !(c.MaxRate >= 0) || math.IsInf(c.MaxRate, 1) {
		return fmt.Errorf("the rate limit is negative or not finite (%v); use 0 for none", c.MaxRate)
	}
	if !(c.Failsafe >= c.Min && c.Failsafe <= c.Max) {
		return fmt.Errorf("the failsafe value is not within the limits (%v, limits %v to %v)",
			c.Failsafe, c.Min, c.Max)
	}
	if math.IsNaN(c.Disarmed) || math.IsInf(c.Disarmed, 0) {
		return fmt.Errorf("the disarmed value is not finite (%v)", c.Disarmed)
	}
	m := c.Measured
	if !(math.Abs(m.Scale) <= math.MaxFloat64 && math.Abs(m.Offset) <= math.MaxFloat64) {
		return fmt.Errorf("measured: scale or offset is not finite (%v, %v)", m.Scale, m.Offset)
	}
	if m.Obs != "" && c.Unit != "" && !isPositionUnit(c.Unit) {
		return fmt.Errorf("it is measured (%s), but %q is not the unit of a position", m.Obs, c.Unit)
	}
	return checkText(m.Obs)
}

// checkLimits returns an error unless the limits are finite and distinct as
// float32, the type of samples and actions.
func checkLimits(c *Channel) error {
	lo, hi := float32(c.Min), float32(c.Max)
	if lo < hi && !math.IsInf(float64(lo), 0) && !math.IsInf(float64(hi), 0) {
		return nil
	}
	return fmt.Errorf("the limits are not finite with min < max (%v to %v)", c.Min, c.Max)
}

func checkName(name string) error {
	if name == "" {
		return errors.New("it is empty")
	}
	return checkText(name)
}

// checkText returns an error for text that would garble a terminal or a log: a
// Spec may come from another machine.
func checkText(text string) error {
	if len(text) > MaxName {
		return fmt.Errorf("it is too long (%d bytes): at most %d", len(text), MaxName)
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("it is not UTF-8 (%q)", text)
	}
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("it has an unprintable character (%q)", text)
		}
	}
	return nil
}
