package mcu

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"optibfm/hal"
	"optibfm/hal/serial"
	"optibfm/internal/keys"
)

// Config describes a board. Zero values select the defaults.
type Config struct {
	Port serial.Config `yaml:"port"`
	// TimeoutMs limits the wait for the answer to Arm and Halt, for each of two tries. Default: 20.
	TimeoutMs float64 `yaml:"timeout_ms" rule:"[0, 60000]"`
	// StaleMs is the largest age of a sample. Default: 100.
	StaleMs float64 `yaml:"stale_ms" rule:"[0, 60000]"`
	// DeadmanMs is the silence after which the firmware halts, in whole milliseconds. Default: 200.
	DeadmanMs float64 `yaml:"deadman_ms" rule:"[0, 60000]"`
	// StartTimeoutMs limits the wait for the firmware after the port is opened, which resets many
	// boards. Default: 3000.
	StartTimeoutMs float64 `yaml:"start_timeout_ms" rule:"[0, 60000]"`
	// DeclaredInputs are the firmware's inputs, in its order. Open refuses a board with other
	// inputs. Empty: any inputs, unknown until the board is opened.
	DeclaredInputs []Declared `yaml:"inputs"`
	// DeclaredOutputs are the firmware's outputs, in its order. Open refuses a board with other
	// outputs. Empty: any outputs, unknown until the board is opened.
	DeclaredOutputs []Declared `yaml:"outputs"`
}

// Declared is an input or an output of the firmware.
type Declared struct {
	// Name in the firmware.
	Name string `yaml:"name"`
	// Unit in the firmware; empty for dimensionless.
	Unit string `yaml:"unit"`
}

const (
	defaultTimeout = 20 * time.Millisecond
	defaultStale   = 100 * time.Millisecond
	defaultDeadman = 200 * time.Millisecond
	defaultStart   = 3 * time.Second
)

// Validate returns an error that names the invalid keys.
func (c Config) Validate() error {
	if err := keys.Check("mcu", c); err != nil {
		return err
	}
	if err := c.Port.Validate(); err != nil {
		return fmt.Errorf("mcu: port: %w", err)
	}
	if c.DeadmanMs != math.Trunc(c.DeadmanMs) {
		return fmt.Errorf("mcu: deadman_ms: not an integer (%v)", c.DeadmanMs)
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
		return fmt.Errorf("mcu: inputs, outputs: more than %d (%d)", MaxChannels, len(list))
	}
	names := map[string]bool{}
	for i, d := range list {
		if d.Name == "" || names[d.Name] {
			return fmt.Errorf("mcu: inputs, outputs: element %d: name: empty or given twice (%q)", i, d.Name)
		}
		names[d.Name] = true
	}
	return nil
}

// Inputs returns the declared inputs.
func (c Config) Inputs() []hal.Signal { return signals(c.DeclaredInputs) }

// Outputs returns the declared outputs.
func (c Config) Outputs() []hal.Signal { return signals(c.DeclaredOutputs) }

// Deadman returns the silence after which the firmware halts.
func (c Config) Deadman() time.Duration { return orDefault(c.DeadmanMs, defaultDeadman) }

// Place returns the place of the device. Two devices cannot have the same place.
func (c Config) Place() string { return c.Port.Path }

// Bounds returns the longest times of calls: Read does not wait, Write waits for room in the
// kernel's buffer, ARM and HALT have two tries. Arm first sends HALT once. The argument is for I²C
// devices.
func (c Config) Bounds(time.Duration) hal.Bounds {
	t := orDefault(c.TimeoutMs, defaultTimeout)
	return hal.Bounds{Act: t, Arm: 3 * t, Halt: 2 * t}
}

func signals(declared []Declared) []hal.Signal {
	list := make([]hal.Signal, len(declared))
	for i, d := range declared {
		list[i] = hal.Signal{Name: d.Name, Unit: d.Unit}
	}
	return list
}

// checkDeclared compares the declared channels with the firmware's.
func (c Config) checkDeclared(inputs, outputs []hal.Signal) error {
	for _, list := range []struct {
		what             string
		firmware, config []hal.Signal
	}{{"inputs", inputs, c.Inputs()}, {"outputs", outputs, c.Outputs()}} {
		if len(list.config) > 0 && !slices.Equal(list.firmware, list.config) {
			firmware, config := formatSignals(list.firmware), formatSignals(list.config)
			return fmt.Errorf("%s: the firmware's are not the configuration's; copy the firmware's:\n"+
				"  firmware: %s\n  configuration: %s", list.what, firmware, config)
		}
	}
	return nil
}

// formatSignals formats signals as in a configuration file.
func formatSignals(signals []hal.Signal) string {
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
