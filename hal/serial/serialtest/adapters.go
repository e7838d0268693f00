package serialtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	devices = "/sys/bus/usb/devices"
	driver  = "/sys/bus/usb/drivers/ftdi_sio"
)

// pair is two adapters of the machine of scripts/vm, by the names of their USB interfaces.
type pair struct{ near, far string }

var (
	adapters sync.Mutex
	free     []*pair
	found    bool
)

// openAdapters takes a free pair of adapters.
func openAdapters() (*Line, error) {
	p, err := take()
	if err != nil {
		return nil, fmt.Errorf("serialtest: %w", err)
	}
	l, err := p.open()
	if err != nil {
		return nil, fmt.Errorf("serialtest: %w", errors.Join(err, p.unplug()))
	}
	return l, nil
}

func (p *pair) open() (*Line, error) {
	near, err := plug(p.near)
	if err != nil {
		return nil, err
	}
	path, err := plug(p.far)
	if err != nil {
		return nil, err
	}
	far, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	raw, err := far.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, far.Close())
	}
	var echo error
	err = raw.Control(func(fd uintptr) { echo = disableEcho(int(fd)) })
	if err := errors.Join(err, echo); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), far.Close())
	}
	return &Line{File: far, Path: near, pair: p}, nil
}

func take() (*pair, error) {
	adapters.Lock()
	defer adapters.Unlock()
	if !found {
		interfaces, err := filepath.Glob(devices + "/*-[1-9]:1.0") // port 0 is a hub
		if err != nil {
			return nil, err
		}
		for i := 0; i+1 < len(interfaces); i += 2 {
			free = append(free, &pair{filepath.Base(interfaces[i]), filepath.Base(interfaces[i+1])})
		}
		found = true
	}
	if len(free) == 0 {
		return nil, errors.New("no free pair of USB adapters")
	}
	p := free[0]
	free = free[1:]
	return p, nil
}

// plug connects an adapter that was unplugged, and returns its device.
func plug(name string) (string, error) {
	if _, err := os.Stat(filepath.Join(driver, name)); err != nil {
		if err := os.WriteFile(driver+"/bind", []byte(name), 0); err != nil {
			return "", err
		}
	}
	ports, err := filepath.Glob(filepath.Join(devices, name, "ttyUSB*"))
	if err != nil {
		return "", err
	}
	if len(ports) != 1 {
		return "", fmt.Errorf("%s has %d ports, not 1", name, len(ports))
	}
	return "/dev/" + filepath.Base(ports[0]), nil
}

// unplug removes both adapters' devices.
func (p *pair) unplug() error {
	err := errors.Join(
		os.WriteFile(driver+"/unbind", []byte(p.near), 0),
		os.WriteFile(driver+"/unbind", []byte(p.far), 0),
	)
	adapters.Lock()
	defer adapters.Unlock()
	free = append(free, p)
	return err
}
