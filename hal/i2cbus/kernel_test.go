package i2cbus_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"optibfm/hal/cp2112test"
	"optibfm/hal/i2cbus"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func TestKernel_ReopensUnpluggedAdapter(t *testing.T) {
	if os.Getenv("OPTIBFM_VM") == "" {
		t.Skip("not in the machine of scripts/vm")
	}
	path := filepath.Join(t.TempDir(), "i2c-imu") // a link, as udev makes one
	plug := func() *cp2112test.Adapter {
		a, err := cp2112test.New(func(uint16, []byte, []byte) error { return nil })
		fatal.If(t, err)
		_ = os.Remove(path)
		fatal.If(t, os.Symlink(a.Bus, path))
		return a
	}
	adapter := plug()
	bus, err := i2cbus.Open(path, i2cbus.DefaultTimeout)
	fatal.If(t, err)
	tx := func() error { return bus.Tx(0x28, []byte{0}, nil) }
	fatal.If(t, tx())
	unplugged := make(chan error)
	go func() { unplugged <- adapter.Close() }() // the kernel waits for the bus
	for err = tx(); !errors.Is(err, i2cbus.ErrRemoved); err = tx() {
		time.Sleep(time.Millisecond)
	}
	errtest.Nil(t, <-unplugged)
	adapter = plug()
	for err = tx(); errors.Is(err, i2cbus.ErrRemoved); err = tx() {
		time.Sleep(time.Millisecond)
	}
	errtest.Nil(t, errors.Join(err, bus.Close(), adapter.Close()))
}
