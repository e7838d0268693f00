package serial

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Constants that golang.org/x/sys lacks: include/uapi/linux/serial.h (serial_struct, serial_rs485)
// and tty_flags.h.
const (
	asyncLowLatency = 1 << 13
	rs485Enabled    = 1 << 0
	rs485RTSOnSend  = 1 << 1
	inputBaudShift  = 16    // IBSHIFT: the input rate in c_cflag
	serialInfoWords = 18    // serial_struct has 72 bytes with 8-byte pointers
	serialInfoFlags = 4     // index of the word with the flags
	rateTolerance   = 0.025 // a UART receives correctly up to about this deviation
	rs485Words      = 8     // serial_rs485
)

// openDevice opens and configures the device of c.
func openDevice(c Config) (fd int, err error) {
	fd, err = unix.Open(c.Path, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		const fix = "plug it in, and add the user to the group of the device (dialout)"
		return -1, fmt.Errorf("serial: %s: open: %w; %s", c.Path, err, fix)
	}
	if err := configure(fd, c); err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("serial: %s: %w", c.Path, err)
	}
	setLowLatency(fd)
	return fd, nil
}

func configure(fd int, c Config) error {
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock: %w (another program uses the port); stop that program", err)
	}
	if err := unix.IoctlSetInt(fd, unix.TIOCEXCL, 0); err != nil {
		return fmt.Errorf("lock: %w; set path to a serial device", err)
	}
	if err := setRaw(fd, c); err != nil {
		return err
	}
	if c.RS485 {
		return setRS485(fd)
	}
	return nil
}

// setRaw sets raw mode and the rate, and reads the rate back: drivers round it to a divisor.
func setRaw(fd int, c Config) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS2)
	if err != nil {
		return fmt.Errorf("read line settings: %w; set path to a serial device", err)
	}
	rate := uint32(c.baud())
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	t.Cflag = unix.CS8 | unix.CREAD | unix.CLOCAL | unix.BOTHER | unix.BOTHER<<inputBaudShift | c.parity()
	t.Ispeed, t.Ospeed = rate, rate
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0 // an empty buffer is EAGAIN; 0 bytes are a hang-up
	if err := unix.IoctlSetTermios(fd, unix.TCSETS2, t); err != nil {
		return fmt.Errorf("set %d bit/s: %w; change baud", rate, err)
	}
	got, err := unix.IoctlGetTermios(fd, unix.TCGETS2)
	if err != nil {
		return fmt.Errorf("read line settings: %w", err)
	}
	off := float64(got.Ospeed)/float64(rate) - 1
	if off > rateTolerance || off < -rateTolerance {
		return fmt.Errorf("set %d bit/s: the hardware rounds it to %d bit/s; change baud", rate, got.Ospeed)
	}
	return nil
}

// setLowLatency asks the driver to deliver bytes as they arrive. Drivers without the flag refuse or
// ignore it, which costs latency and no correctness: the result is not checked.
func setLowLatency(fd int) {
	var info [serialInfoWords]int32
	if ioctl(fd, unix.TIOCGSERIAL, unsafe.Pointer(&info)) != 0 {
		return
	}
	info[serialInfoFlags] |= asyncLowLatency
	ioctl(fd, unix.TIOCSSERIAL, unsafe.Pointer(&info))
}

func setRS485(fd int) error {
	const fix = "use an adapter that switches the direction in hardware, and unset rs485"
	setting := [rs485Words]uint32{rs485Enabled | rs485RTSOnSend}
	if errno := ioctl(fd, unix.TIOCSRS485, unsafe.Pointer(&setting)); errno != 0 {
		return fmt.Errorf("rs485: not supported by the driver: %w; %s", errno, fix)
	}
	if setting[0]&rs485Enabled == 0 {
		return fmt.Errorf("rs485: the driver ignored the setting; %s", fix)
	}
	return nil
}

func ioctl(fd int, request uintptr, argument unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument))
	runtime.KeepAlive(argument)
	return errno
}
