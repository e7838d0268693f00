package remote

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/rewardsrc"
	"optibfm/rewardsrc/panel"
)

// Config assigns the buttons A, B, X and Y. Start from [DefaultConfig].
type Config struct {
	// Buttons are letters.
	panel.Buttons `yaml:",inline"`
	// Labels sets the values and times of presses.
	Labels panel.Config `yaml:"labels"`
}

// DefaultConfig is A good, B bad, X undo, Y "this is it".
func DefaultConfig() Config {
	return Config{
		Buttons: panel.Buttons{Good: "A", Bad: "B", Undo: "X", Goal: "Y"}, Labels: panel.DefaultConfig(),
	}
}

// letters are the buttons that reach this device.
var letters = []string{"A", "B", "X", "Y"}

// Validate returns an error that names each key with an invalid value, except Labels.
func (c Config) Validate() error {
	var errs []error
	taken := map[string]panel.Role{}
	for _, r := range panel.Roles() {
		letter := *c.Button(r)
		if letter == "" {
			continue
		}
		if !slices.Contains(letters, letter) {
			errs = append(errs, fmt.Errorf("remote: %v is unknown (%q); use one of %s", r, letter, strings.Join(letters, ", ")))
		}
		if other, twice := taken[letter]; twice {
			errs = append(errs, fmt.Errorf("remote: %v is the same button as %v (%s); use another", r, other, letter))
		}
		taken[letter] = r
	}
	return errors.Join(errs...)
}

// Presses are the presses of the robot's buttons, oldest first.
type Presses interface {
	// NextPress takes the oldest press. at is CLOCK_MONOTONIC ns. It never blocks.
	NextPress() (letter rune, at int64, ok bool)
}

// Open takes labels from presses.
func Open(c Config, presses Presses, opts panel.Options) (*panel.Panel, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	opts.Name = "remote control"
	return panel.Start(c.Labels, &device{c, presses}, opts)
}

type device struct {
	config  Config
	presses Presses
}

// every is the time between two looks for presses.
const every = 10 * time.Millisecond

// Open implements panel.Device.
func (d *device) Open(p *panel.Panel) (panel.Conn, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return &conn{d, p, fd}, nil
}

// conn is a panel.Conn without events: it looks for presses where other devices look after their
// lamp.
type conn struct {
	*device
	panel *panel.Panel
	never int // an eventfd that is never readable
}

// Fd implements panel.Conn.
func (c *conn) Fd() int { return c.never }

// Close implements panel.Conn.
func (c *conn) Close() error { return unix.Close(c.never) }

// Read implements panel.Conn.
func (c *conn) Read() error { return nil }

// Signal implements panel.Lamp. The remote control has no lamp.
func (c *conn) Signal(panel.Signal, int64) {}

// Tick implements panel.Lamp. A press is complete: its release does not matter.
func (c *conn) Tick(now int64) (next int64) {
	for {
		letter, at, ok := c.presses.NextPress()
		if !ok {
			return now + int64(every)
		}
		for _, r := range panel.Roles() {
			if *c.config.Button(r) == string(letter) {
				c.panel.Down(r, at)
				c.panel.Up(r, at)
			}
		}
	}
}

var _ rewardsrc.Source = (*panel.Panel)(nil)
