package serial

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Facts of the kernel's interface that golang.org/x/sys does not name:
// include/uapi/linux/serial.h (serial_struct, serial_rs485) and tty_flags.h.
const (
	asyncLowLatency  = 1 << 13
	rs485Enabled     = 1 << 0
	rs485RTSOnSend   = 1 << 1
	inputBaudShift   = 16    // of the input rate in c_cflag, IBSHIFT
	serialInfoWords  = 18    // serial_struct has 72 bytes, with 8 byte pointers
	serialInfoFlags  = 4     // the word of its flags
	rateTolerance    = 0.025 // a UART reads its neighbour up to about this
	rs485SettingSize = 8     // words of serial_rs485
)

// openDevice opens and sets up the device of c.
func openDevice(c Config) (fd int, lowLatency bool, err error) {
	fd, err = unix.Open(c.Path, unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, false, fmt.Errorf("serial: %s: open: %w: see whether it is plugged in, and whether you are in the group of the device (dialout)", c.Path, err)
	}
	if err := setUp(fd, c); err != nil {
		_ = unix.Close(fd)
		return -1, false, fmt.Errorf("serial: %s: %w", c.Path, err)
	}
	return fd, setLowLatency(fd), nil
}

func setUp(fd int, c Config) error {
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("take it exclusively: %w: another program has it: end that one", err)
	}
	if err := unix.IoctlSetInt(fd, unix.TIOCEXCL, 0); err != nil {
		return fmt.Errorf("take it exclusively: %w: name a serial device", err)
	}
	if err := setRaw(fd, c); err != nil {
		return err
	}
	if c.RS485 {
		return setRS485(fd)
	}
	return nil
}

// setRaw sets bytes as they are, at the wanted rate, and reads the rate back:
// drivers round to what their divisor gives.
func setRaw(fd int, c Config) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS2)
	if err != nil {
		return fmt.Errorf("settings of the line: %w: name a serial device", err)
	}
	parity, err := c.parity()
	if err != nil {
		return err
	}
	rate := uint32(c.baud())
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	t.Cflag = unix.CS8 | unix.CREAD | unix.CLOCAL | unix.BOTHER | unix.BOTHER<<inputBaudShift | parity
	t.Ispeed, t.Ospeed = rate, rate
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0 // nothing there is EAGAIN, not 0: 0 is a hang-up
	if err := unix.IoctlSetTermios(fd, unix.TCSETS2, t); err != nil {
		return fmt.Errorf("set %d bits per second: %w: choose another baud", rate, err)
	}
	got, err := unix.IoctlGetTermios(fd, unix.TCGETS2)
	if err != nil {
		return fmt.Errorf("settings of the line: %w", err)
	}
	off := float64(got.Ospeed)/float64(rate) - 1
	if off > rateTolerance || off < -rateTolerance {
		return fmt.Errorf("the port makes %d bits per second of %d: choose a baud that it can", got.Ospeed, rate)
	}
	return nil
}

// setLowLatency asks the driver to hand bytes on as they come. Drivers without
// the flag refuse or ignore it.
func setLowLatency(fd int) bool {
	var info [serialInfoWords]int32
	if ioctl(fd, unix.TIOCGSERIAL, unsafe.Pointer(&info)) != 0 {
		return false
	}
	info[serialInfoFlags] |= asyncLowLatency
	if ioctl(fd, unix.TIOCSSERIAL, unsafe.Pointer(&info)) != 0 {
		return false
	}
	if ioctl(fd, unix.TIOCGSERIAL, unsafe.Pointer(&info)) != 0 {
		return false
	}
	return info[serialInfoFlags]&asyncLowLatency != 0
}

func setRS485(fd int) error {
	setting := [rs485SettingSize]uint32{rs485Enabled | rs485RTSOnSend}
	if errno := ioctl(fd, unix.TIOCSRS485, unsafe.Pointer(&setting)); errno != 0 {
		return fmt.Errorf("rs485: the driver does not switch the direction (%w): use an adapter that does it by itself, and leave rs485 out", errno)
	}
	if setting[0]&rs485Enabled == 0 {
		return fmt.Errorf("rs485: the driver did not take the setting: use an adapter that does it by itself, and leave rs485 out")
	}
	return nil
}

func ioctl(fd int, request uintptr, argument unsafe.Pointer) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument))
	runtime.KeepAlive(argument)
	return errno
}
