package serial

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/keys"
)

// Config holds the settings of a port. Zero values select the defaults.
type Config struct {
	// Path is the device, preferably under /dev/serial/by-id: that name stays the same after
	// replugging.
	Path string `yaml:"path"`
	// Baud is the rate in bits per second, also a non-standard one. Default: 1000000.
	Baud int `yaml:"baud" rule:"[0, 12e6]"`
	// Parity is none (default), even or odd. There are 8 data bits and one stop bit.
	Parity string `yaml:"parity"`
	// Echo is for an adapter that receives what it sends: the echo is read back and compared.
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

// Parities returns the names of the parities, and "" for the default.
func Parities() []string { return []string{None, Even, Odd, ""} }

// Choices lists the values of a key that has choices.
func (Config) Choices(key string) []string { return map[string][]string{"parity": Parities()}[key] }

const (
	defaultBaud = 1_000_000
	dataBits    = 8
)

// Validate returns an error that names the invalid keys.
func (c Config) Validate() error {
	if err := keys.Check("serial", c); err != nil {
		return err
	}
	if c.Path == "" {
		return fmt.Errorf("serial: path: empty; set it to a device, such as one under /dev/serial/by-id")
	}
	return nil
}

// WireTime returns the time that n bytes take on the line.
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

// parity returns the bits for c_cflag.
func (c Config) parity() uint32 {
	switch c.Parity {
	case Even:
		return unix.PARENB
	case Odd:
		return unix.PARENB | unix.PARODD
	}
	return 0
}
