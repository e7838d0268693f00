package serialtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// usb has a folder for each USB interface.
const usb = "/sys/bus/usb/drivers/ftdi_sio"

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
	near, err := plug(p.near)
	if err != nil {
		return nil, fmt.Errorf("serialtest: %w", err)
	}
	path, err := plug(p.far)
	if err != nil {
		return nil, fmt.Errorf("serialtest: %w", err)
	}
	far, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("serialtest: %w", err)
	}
	raw, err := far.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("serialtest: %w", err)
	}
	if err := errors.Join(raw.Control(func(fd uintptr) { err = disableEcho(int(fd)) }), err); err != nil {
		return nil, fmt.Errorf("serialtest: %s: %w", path, err)
	}
	return &Line{File: far, Path: near, pair: p}, nil
}

func take() (*pair, error) {
	adapters.Lock()
	defer adapters.Unlock()
	if !found {
		interfaces, err := filepath.Glob(usb + "/*:1.0")
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
	if _, err := os.Stat(filepath.Join(usb, name)); err != nil {
		if err := os.WriteFile(usb+"/bind", []byte(name), 0); err != nil {
			return "", err
		}
	}
	devices, err := filepath.Glob(filepath.Join(usb, name, "ttyUSB*"))
	if err != nil || len(devices) != 1 {
		return "", fmt.Errorf("%s has no device: %w", name, err)
	}
	return "/dev/" + filepath.Base(devices[0]), nil
}

// unplug removes both adapters' devices.
func (p *pair) unplug() error {
	err := errors.Join(
		os.WriteFile(usb+"/unbind", []byte(p.near), 0),
		os.WriteFile(usb+"/unbind", []byte(p.far), 0),
	)
	adapters.Lock()
	defer adapters.Unlock()
	free = append(free, p)
	return err
}
