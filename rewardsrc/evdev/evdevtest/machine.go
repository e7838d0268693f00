// Package evdevtest simulates a machine with input devices. Events are bytes of
// struct input_event, as the kernel writes them, in named pipes in a folder, so
// that one process can press the buttons of another process's device.
package evdevtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/panel"
)

// Machine is an evdev.System whose devices are in a folder.
type Machine struct{ Dir string }

// state is the state of a device, stored beside its pipe.
type state struct {
	Info    evdev.Info
	Down    []uint16
	Ranges  map[uint16]evdev.Range
	Grabbed bool // by another program
	Private bool // may not be opened
}

// List implements evdev.System.
func (m Machine) List() (all []evdev.Info, err error) {
	entries, err := os.ReadDir(m.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		node, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		if s, err := m.state(node); err == nil {
			all = append(all, s.Info)
		}
	}
	return all, nil
}

func (m Machine) state(node string) (s state, err error) {
	text, err := os.ReadFile(filepath.Join(m.Dir, node+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return s, unix.ENODEV
	}
	return s, errors.Join(err, json.Unmarshal(text, &s))
}

// Open implements evdev.System.
func (m Machine) Open(info evdev.Info) (evdev.Input, error) {
	s, err := m.state(info.Node)
	if err != nil {
		return nil, fmt.Errorf("%s: %w (%w)", info.Node, panel.ErrAbsent, err)
	}
	if s.Private {
		return nil, fmt.Errorf("%s: %w; %s", info.Node, unix.EACCES, evdev.PermissionFix)
	}
	fd, err := unix.Open(filepath.Join(m.Dir, info.Node), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w (%w)", info.Node, panel.ErrAbsent, err)
	}
	return &input{m, info.Node, fd}, nil
}

type input struct {
	machine Machine
	node    string
	fd      int
}

func (i *input) Fd() int      { return i.fd }
func (i *input) Close() error { return unix.Close(i.fd) }

func (i *input) Keys() (b evdev.Bits, err error) {
	s, err := i.machine.state(i.node)
	for _, code := range s.Down {
		b.Set(code)
	}
	return b, err
}

func (i *input) Range(axis uint16) (evdev.Range, error) {
	s, err := i.machine.state(i.node)
	return s.Ranges[axis], err
}

func (i *input) Grab() error {
	s, err := i.machine.state(i.node)
	if s.Grabbed {
		return unix.EBUSY
	}
	return err
}
