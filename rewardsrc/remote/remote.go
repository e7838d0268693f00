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

// device is a panel.Device.
type device struct {
	config  Config
	presses Presses
}

// every is the time between two looks for presses.
const every = 10 * time.Millisecond

// Open implements panel.Device.
func (d *device) Open(p *panel.Panel) (panel.Conn, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("timerfd: %w", err)
	}
	tick := unix.NsecToTimespec(int64(every))
	if err := unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Interval: tick, Value: tick}, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("timerfd: %w", err), unix.Close(fd))
	}
	return &conn{d, p, fd}, nil
}

// conn is a panel.Conn.
type conn struct {
	*device
	panel *panel.Panel
	timer int
}

// Fd implements panel.Conn.
func (c *conn) Fd() int { return c.timer }

// Close implements panel.Conn.
func (c *conn) Close() error { return unix.Close(c.timer) }

// Read implements panel.Conn. A press is complete: the release does not matter.
func (c *conn) Read() error {
	var expired [8]byte
	if _, err := unix.Read(c.timer, expired[:]); err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
		return err
	}
	for {
		letter, at, ok := c.presses.NextPress()
		if !ok {
			return nil
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
