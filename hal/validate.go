package hal

import (
	"fmt"
	"math"
	"unicode"
	"unicode/utf8"
)

// The sizes that Validate accepts. They are far above those of any robot that
// the method was meant for and keep what comes over a wire bounded.
const (
	MaxChannels = 1024 // channels in an observation, and in an action
	MaxName     = 128  // bytes in a robot's, a channel's or a unit's name
)

// Validate reports the first thing that makes s unusable, or nil: the robot
// and its channels have names, unique in their list; there is at least one
// channel of each kind and at most [MaxChannels]; the limits of actions are
// finite with Min < Max and Failsafe between them; their disarmed output is
// finite; the limits of observations
// are both 0 or finite with Min < Max; no rate limit is negative; the period is
// positive.
func (s Spec) Validate() error {
	if err := checkName(s.Name); err != nil {
		return fmt.Errorf("hal: spec: name of the robot: %w", err)
	}
	if s.Period <= 0 {
		return fmt.Errorf("hal: spec of %s: the period is not positive (%v): give the nominal control period", s.Name, s.Period)
	}
	if err := checkChannels(s.Obs, checkObs); err != nil {
		return fmt.Errorf("hal: spec of %s: obs: %w", s.Name, err)
	}
	if err := checkChannels(s.Action, checkActionChannel); err != nil {
		return fmt.Errorf("hal: spec of %s: action: %w", s.Name, err)
	}
	return nil
}

// CheckAction reports whether action may be sent to the actuators: it has the
// right length and every element is finite and within the limits of its
// channel. It allocates only when it returns an error. It is the last line of
// defence of a driver, not a guard: it clips nothing.
func (s *Spec) CheckAction(action []float32) error {
	if len(action) != len(s.Action) {
		return fmt.Errorf("hal: %s: action has the wrong length (%d): give %d elements", s.Name, len(action), len(s.Action))
	}
	for i, v := range action {
		c := &s.Action[i]
		// The limits are rounded as the action was: 0.1 must reach 0.1.
		if v >= float32(c.Min) && v <= float32(c.Max) {
			continue
		}
		return fmt.Errorf("hal: %s: action %q is not within its limits (%v, limits %v to %v): clip it before Act", s.Name, c.Name, v, c.Min, c.Max)
	}
	return nil
}

func checkChannels(channels []Channel, check func(*Channel) error) error {
	if len(channels) == 0 {
		return fmt.Errorf("there is no channel: name at least one")
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
			return fmt.Errorf("channels %d and %d have the same name (%q): names are unique in their list", j, i, c.Name)
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
		return fmt.Errorf("the rate limit is negative or not finite (%v): give a positive one, or 0 for none", c.MaxRate)
	}
	if !(c.Failsafe >= c.Min && c.Failsafe <= c.Max) {
		return fmt.Errorf("the failsafe value is not within the limits (%v, limits %v to %v): move it inside", c.Failsafe, c.Min, c.Max)
	}
	if math.IsNaN(c.Disarmed) || math.IsInf(c.Disarmed, 0) {
		return fmt.Errorf("the disarmed value is not finite (%v): give a number", c.Disarmed)
	}
	return nil
}

// checkLimits asks for limits that are still apart and finite as float32,
// which is what samples and actions are made of.
func checkLimits(c *Channel) error {
	lo, hi := float32(c.Min), float32(c.Max)
	if lo < hi && !math.IsInf(float64(lo), 0) && !math.IsInf(float64(hi), 0) {
		return nil
	}
	return fmt.Errorf("the limits are not finite with min < max (%v to %v): give both", c.Min, c.Max)
}

func checkName(name string) error {
	if name == "" {
		return fmt.Errorf("it is empty: give one")
	}
	return checkText(name)
}

// checkText refuses what would garble a terminal or a log: a Spec may come
// from another machine.
func checkText(text string) error {
	if len(text) > MaxName {
		return fmt.Errorf("it is too long (%d bytes): at most %d", len(text), MaxName)
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("it is not UTF-8 (%q): write it in UTF-8", text)
	}
	for _, r := range text {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("it has an unprintable character (%q): remove it", text)
		}
	}
	return nil
}
