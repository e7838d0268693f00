package serial

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Config says which port and how. Zero values mean the defaults.
type Config struct {
	// Path is the device, best one under /dev/serial/by-id, which stays the
	// same when the adapter is plugged in again.
	Path string `yaml:"path"`
	// Baud is the rate in bits per second, also uncommon ones. Default: 1000000.
	Baud int `yaml:"baud"`
	// Parity is none (default), even or odd. There are 8 data bits and one
	// stop bit.
	Parity string `yaml:"parity"`
	// Echo says that the adapter hears what it sends: it is read back and
	// compared.
	Echo bool `yaml:"echo"`
	// RS485 lets the UART's driver switch the transceiver's direction by RTS.
	RS485 bool `yaml:"rs485"`
}

// The names of the parities.
const (
	None = "none"
	Even = "even"
	Odd  = "odd"
)

// Parities lists the names of the parities, and "" for the default.
func Parities() []string { return []string{None, Even, Odd, ""} }

const (
	defaultBaud = 1_000_000
	maxBaud     = 12_000_000
	dataBits    = 8
)

// Validate reports the first setting that is wrong.
func (c Config) Validate() error {
	if c.Path == "" {
		return fmt.Errorf("serial: path: it is empty: name the device, such as one under /dev/serial/by-id")
	}
	if c.Baud < 0 || c.Baud > maxBaud {
		return fmt.Errorf("serial: baud: not a rate (%d): give bits per second up to %d, or 0 for %d", c.Baud, maxBaud, defaultBaud)
	}
	_, err := c.parity()
	return err
}

// WireTime is how long n bytes take on the line.
func (c Config) WireTime(n int) time.Duration {
	bits := dataBits + 2 // start and stop
	if c.Parity == Even || c.Parity == Odd {
		bits++
	}
	return time.Duration(int64(n) * int64(bits) * int64(time.Second) / int64(c.baud()))
}

func (c Config) baud() int {
	if c.Baud == 0 {
		return defaultBaud
	}
	return c.Baud
}

// parity gives the bits of c_cflag.
func (c Config) parity() (uint32, error) {
	switch c.Parity {
	case "", None:
		return 0, nil
	case Even:
		return unix.PARENB, nil
	case Odd:
		return unix.PARENB | unix.PARODD, nil
	}
	return 0, fmt.Errorf("serial: parity: unknown (%q): choose none, even or odd", c.Parity)
}
