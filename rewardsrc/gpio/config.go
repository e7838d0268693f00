package gpio

import (
	"errors"
	"fmt"

	"optibfm/internal/keys"
	"optibfm/rewardsrc/panel"
)

// Config assigns the pins. Start from [DefaultConfig]. A line is
// given by its number on the chip or by its name (gpioinfo lists both), in
// quotes.
type Config struct {
	// Chip is the GPIO chip: gpiochip0, or a path.
	Chip string `yaml:"chip"`
	// Buttons are lines.
	panel.Buttons `yaml:",inline"`
	// ActiveLow means that a pressed button pulls its line to ground.
	ActiveLow bool `yaml:"active_low"`
	// Bias is the resistor at the buttons' lines within the chip: pull_up,
	// pull_down, off, or as_is if there is an external one. A chip without
	// such resistors ignores it, and the kernel does not say so.
	Bias string `yaml:"bias"`
	// DebounceMS is the time that a button must be steady, in [0, 1000] ms.
	DebounceMS float64 `yaml:"debounce_ms" rule:"[0, 1000]"`
	// LED is the line of a light. Empty: none.
	LED string `yaml:"led"`
	// LEDActiveLow means that the light is on while its line is low.
	LEDActiveLow bool `yaml:"led_active_low"`
	// Buzzer is the line of a buzzer that sounds while it is on. Empty: none.
	Buzzer string `yaml:"buzzer"`
	// Labels sets the values and times of presses.
	Labels panel.Config `yaml:"labels"`
}

// The values of Config.Bias.
const (
	PullUp   = "pull_up"
	PullDown = "pull_down"
	Off      = "off"
	AsIs     = "as_is"
)

// Biases lists the values of Config.Bias.
func Biases() []string { return []string{PullUp, PullDown, Off, AsIs} }

// Choices lists the values of a key that has choices.
func (Config) Choices(key string) []string { return map[string][]string{"bias": Biases()}[key] }

// DefaultConfig is buttons to ground on the first chip, without lines.
func DefaultConfig() Config {
	return Config{Chip: "gpiochip0", ActiveLow: true, Bias: PullUp, DebounceMS: 10, Labels: panel.DefaultConfig()}
}

// Validate returns an error that names each key with an invalid value, except
// Labels: panel.Config.Validate checks that.
func (c Config) Validate() error {
	return errors.Join(append([]error{keys.Check("gpio", c)}, c.checkLines()...)...)
}

func (c *Config) checkLines() (errs []error) {
	taken := make(map[string]string)
	check := func(key, line string) {
		if line == "" {
			return
		}
		if other, twice := taken[line]; twice {
			errs = append(errs, fmt.Errorf("gpio: %s is the same line as %s (%q); use another", key, other, line))
		}
		taken[line] = key
	}
	for _, r := range panel.Roles() {
		check(r.String(), *c.Button(r))
	}
	check("led", c.LED)
	check("buzzer", c.Buzzer)
	return errs
}

// Bound returns an error unless a chip and a button that gives labels are
// configured.
func (c Config) Bound() error {
	switch {
	case c.Chip == "":
		return errors.New("gpio: chip is empty; set a chip that gpiodetect lists, such as gpiochip0")
	case !c.Teach():
		return errors.New("gpio: no button gives labels; set good, bad, better, worse or goal to a line of gpioinfo")
	}
	return nil
}
