package mcu

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"optibfm/hal"
	"optibfm/hal/serial"
)

// Config says where the board is. Zero values mean the defaults.
type Config struct {
	Port serial.Config `yaml:"port"`
	// TimeoutMs limits the wait for the answer to Arm and Halt, for each of
	// two tries. Default: 20.
	TimeoutMs float64 `yaml:"timeout_ms"`
	// StaleMs is the age at which a sample is refused. Default: 100.
	StaleMs float64 `yaml:"stale_ms"`
	// DeadmanMs is the silence after which the firmware halts, whole
	// milliseconds. Default: 200.
	DeadmanMs float64 `yaml:"deadman_ms"`
	// StartTimeoutMs limits the wait for the firmware when the port is opened,
	// which resets many boards. Default: 3000.
	StartTimeoutMs float64 `yaml:"start_timeout_ms"`
	// DeclaredInputs are those of the firmware, in its order: Open refuses a board with
	// others. Empty: whatever the firmware says, unknown before it is opened.
	DeclaredInputs []Declared `yaml:"inputs"`
	// DeclaredOutputs are those of the firmware, in its order, likewise.
	DeclaredOutputs []Declared `yaml:"outputs"`
}

// Declared is an input or an output of the firmware.
type Declared struct {
	// Name as the firmware has it.
	Name string `yaml:"name"`
	// Unit as the firmware has it; empty for dimensionless.
	Unit string `yaml:"unit"`
}

const (
	defaultTimeout = 20 * time.Millisecond
	defaultStale   = 100 * time.Millisecond
	defaultDeadman = 200 * time.Millisecond
	defaultStart   = 3 * time.Second
	maxMs          = 60_000
)

// Validate reports the first setting that is wrong.
func (c Config) Validate() error {
	if err := c.Port.Validate(); err != nil {
		return fmt.Errorf("mcu: port: %w", err)
	}
	settings := []struct {
		key   string
		value float64
	}{
		{"timeout_ms", c.TimeoutMs}, {"stale_ms", c.StaleMs}, {"deadman_ms", c.DeadmanMs}, {"start_timeout_ms", c.StartTimeoutMs},
	}
	for _, s := range settings {
		if !(s.value >= 0 && s.value <= maxMs) {
			return fmt.Errorf("mcu: %s: not between 0 and a minute (%v): give milliseconds, or 0 for the default", s.key, s.value)
		}
	}
	if c.DeadmanMs != math.Trunc(c.DeadmanMs) {
		return fmt.Errorf("mcu: deadman_ms: not whole (%v): the firmware counts whole milliseconds", c.DeadmanMs)
	}
	for _, list := range [][]Declared{c.DeclaredInputs, c.DeclaredOutputs} {
		if err := checkList(list); err != nil {
			return err
		}
	}
	return nil
}

func checkList(list []Declared) error {
	if len(list) > MaxChannels {
		return fmt.Errorf("mcu: inputs, outputs: more than %d (%d): the protocol has no more", MaxChannels, len(list))
	}
	names := map[string]bool{}
	for i, d := range list {
		if d.Name == "" || names[d.Name] {
			return fmt.Errorf("mcu: inputs, outputs: element %d: name: empty or given twice (%q): give the firmware's", i, d.Name)
		}
		names[d.Name] = true
	}
	return nil
}

// Inputs lists what Read gives, as far as the configuration says it.
func (c Config) Inputs() []hal.Signal { return signals(c.DeclaredInputs) }

// Outputs lists what Write takes, as far as the configuration says it.
func (c Config) Outputs() []hal.Signal { return signals(c.DeclaredOutputs) }

// Deadman is the silence after which the firmware will halt.
func (c Config) Deadman() time.Duration { return orDefault(c.DeadmanMs, defaultDeadman) }

// Place says where the device is: no two can be in one place.
func (c Config) Place() string { return c.Port.Path }

// Bounds is what calls take at most: Read does not wait, Write for room in the line's
// buffer, and Arm and Halt have two tries. No I²C bus is used.
func (c Config) Bounds(time.Duration) hal.Bounds {
	t := orDefault(c.TimeoutMs, defaultTimeout)
	return hal.Bounds{Act: t, Arm: 2 * t, Halt: 2 * t}
}

func signals(declared []Declared) []hal.Signal {
	list := make([]hal.Signal, len(declared))
	for i, d := range declared {
		list[i] = hal.Signal{Name: d.Name, Unit: d.Unit}
	}
	return list
}

// checkDeclared compares what the configuration says with what the firmware has.
func (c Config) checkDeclared(inputs, outputs []hal.Signal) error {
	for _, list := range []struct {
		what             string
		firmware, config []hal.Signal
	}{{"inputs", inputs, c.Inputs()}, {"outputs", outputs, c.Outputs()}} {
		if len(list.config) > 0 && !slices.Equal(list.firmware, list.config) {
			return fmt.Errorf("%s: the firmware's are not the configuration's: make them the same, in the same order:\n  firmware: %s\n  configuration: %s", list.what, inWords(list.firmware), inWords(list.config))
		}
	}
	return nil
}

func inWords(signals []hal.Signal) string {
	words := make([]string, len(signals))
	for i, s := range signals {
		words[i] = fmt.Sprintf("{name: %s, unit: %s}", s.Name, s.Unit)
		if s.Unit == "" {
			words[i] = fmt.Sprintf("{name: %s}", s.Name)
		}
	}
	return "[" + strings.Join(words, ", ") + "]"
}

func orDefault(ms float64, d time.Duration) time.Duration {
	if ms == 0 {
		return d
	}
	return time.Duration(math.Round(ms * float64(time.Millisecond)))
}
