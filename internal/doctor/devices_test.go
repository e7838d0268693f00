package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/warthog618/go-gpiocdev"
	"golang.org/x/sys/unix"
	"periph.io/x/conn/v3/i2c"

	"optibfm/configs"
	"optibfm/hal/dynamixel"
	"optibfm/hal/feetech"
	"optibfm/hal/mcu"
	"optibfm/hal/mit"
	"optibfm/hal/mpu6050"
	"optibfm/hal/serial"
	"optibfm/internal/rigtest"
)

func TestEveryDriverSaysWhereItsDeviceIs(t *testing.T) {
	sections := []any{
		mcu.Config{Port: serial.Config{Path: "/dev/ttyACM0"}}, dynamixel.Config{Port: serial.Config{Path: "/dev/ttyUSB0"}},
		feetech.Config{}, mit.Config{Interface: "can0"},
	}
	for field := range reflect.TypeFor[configs.Device]().Fields() {
		key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if section := (configs.Device{Driver: key}).Section(); section != nil {
			sections = append(sections, section)
		}
	}
	if len(sections) < 7 {
		t.Errorf("%d drivers", len(sections))
	}
	for _, section := range sections {
		found := connections("it", section)
		if len(found) == 0 {
			t.Errorf("%T: the doctor does not know what to look at", section)
			continue
		}
		if c := found[0]; c.kind == onI2C && c.address == 0 {
			t.Errorf("%T: no address: %+v", section, c)
		}
	}
	if c := connections("imu", mpu6050.Config{Bus: "/dev/i2c-7", Address: 0x69})[0]; c != (connection{"imu", onI2C, "/dev/i2c-7", 0x69}) {
		t.Errorf("%+v", c)
	}
	if c := connections("arm", sections[1])[0]; c != (connection{"arm", onSerial, "/dev/ttyUSB0", 0}) {
		t.Errorf("%+v", c)
	}
	if c := connections("leg", sections[3])[0]; c != (connection{"leg", onCAN, "can0", 0}) {
		t.Errorf("%+v", c)
	}
	if found := connections("none", nil); found != nil {
		t.Errorf("%+v", found)
	}
}

// denies refuses files with one of these names.

func denies(names ...string) func(string) error {
	return func(p string) error {
		if slices.Contains(names, p) {
			return unix.EACCES
		}
		return nil
	}
}

// board is a Jetson with devices.

func board() fstest.MapFS {
	files := tree(jetson)
	device(files, "/dev/i2c-1", 108)
	device(files, "/dev/gpiochip0", 999)
	device(files, "/dev/ttyUSB0", 20)
	return files
}

func TestADeviceFileIsThereOfTheRightKindAndMayBeUsed(t *testing.T) {
	files := board()
	device(files, "/dev/rooted", 0)
	files["dev/plain"] = &fstest.MapFile{Mode: 0o644}
	m := fakeMachine(files)
	m.access = denies("/dev/ttyUSB0", "/dev/rooted")
	for p, c := range map[string]struct {
		status string
		words  []string
	}{
		"/dev/i2c-1":   {statusOK, []string{"may use it"}},
		"/dev/i2c-9":   {statusFail, []string{"is not there", "plug it in"}},
		"/dev/plain":   {statusFail, []string{"is no gadget"}},
		"/dev/ttyUSB0": {statusFail, []string{"permission denied for optibfm", "usermod -aG dialout optibfm"}},
		"/dev/rooted":  {statusFail, []string{"group root", `SUBSYSTEM=="tty"`, "udevadm"}},
	} {
		verdict(t, p, m.reach(p, "gadget", "tty", "plug it in"), c.status, c.words...)
	}
}

func TestTheDoctorComparesWhatCallsMayTakeWithTheLoop(t *testing.T) {
	m := fakeMachine(board())
	d := examined(t, m, "composite")
	verdict(t, "as it is", d.bounds(), statusOK, "Sense 12ms and Act 24ms at most (imu 12ms, base 24ms)", "Arm ", "Halt 36ms", "period 50 ms", "watchdog ")
	d.file.Robot.Composite.I2CTimeoutMS = 15 // the kernel makes 20 of it
	verdict(t, "a longer one", d.bounds(), statusWarn, "loop.period_ms: found 50ms, but Sense and Act may take 72ms", "i2c_timeout_ms")
	d.file.Robot.Composite.I2CTimeoutMS = 1000
	verdict(t, "a very long one", d.bounds(), statusFail, "loop.watchdog_ms", "a silent bus would look")
	d.file.Run.Shadow = true
	verdict(t, "in a shadow", d.bounds(), statusOK, "Sense 1.2s")
}

func TestEachI2CDeviceIsAskedForOneRegisterAndNothingIsWritten(t *testing.T) {
	m := fakeMachine(board())
	rig := rigtest.NewRig()
	m.hardware = rig.Hardware()
	pwm := rig.Pwm.Registers
	d := examined(t, m, "composite")
	list := []connection{{"imu", onI2C, "/dev/i2c-1", 0x28}, {"base", onI2C, "/dev/i2c-1", 0x40}, {"other", onI2C, "/dev/i2c-1", 0x50}, {"far", onI2C, "/dev/i2c-3", 0x50}}
	found := d.buses(t.Context(), list)
	if len(found) != 5 {
		t.Fatalf("%+v", found)
	}
	verdict(t, "bus", found[0], statusOK, "/dev/i2c-1")
	verdict(t, "imu", found[1], statusOK, "0x28", "register 0 is 0xa0") // BNO055's CHIP_ID
	verdict(t, "base", found[2], statusOK, "0x40")
	verdict(t, "other", found[3], statusFail, "0x50 on /dev/i2c-1 does not answer", "i2cdetect -y -r 1")
	verdict(t, "far", found[4], statusFail, "/dev/i2c-3 is not there", "i2c-dev")
	if rig.Pwm.Registers != pwm {
		t.Error("a register of the PWM changed")
	}
	d.hardware.OpenI2C = func(string, time.Duration) (i2c.BusCloser, error) { return nil, errors.New("SMBus only") }
	verdict(t, "bad bus", d.buses(t.Context(), list[:1])[0], statusFail, "SMBus only")
}

func TestAGPIOLineIsThereAndFree(t *testing.T) {
	m := fakeMachine(board())
	states := map[string]lineState{
		"GPIO17": {Chip: "gpiochip0", Offset: 17, Name: "GPIO17"}, "gpiochip0:4": {Chip: "gpiochip0", Offset: 4, Used: true, By: "spi0 CS0"},
	}
	m.line = func(chip, line string) (lineState, error) {
		if s, ok := states[strings.TrimPrefix(chip+":"+line, ":")]; ok {
			return s, nil
		}
		return lineState{}, gpiocdev.ErrNotFound
	}
	d := examined(t, m, "composite")
	found := d.lines(t.Context(), []connection{{device: "base", name: "GPIO17"}, {device: "base", name: "gpiochip0:4"}, {device: "base", name: "PQ.05"}, {device: "base", name: "gpiochip7:1"}})
	verdict(t, "free", found[0], statusOK, "gpiochip0 17, free")
	verdict(t, "used", found[1], statusFail, `used by "spi0 CS0"`)
	verdict(t, "no such name", found[2], statusFail, "no chip has a line", "gpioinfo")
	verdict(t, "no such chip", found[3], statusFail, "/dev/gpiochip7 is not there")
	d.access = denies("/dev/gpiochip0")
	verdict(t, "not allowed", d.lookAtLine("", "PQ.05"), statusFail, "permission denied", "usermod -aG gpio optibfm")
	d.files = tree(jetson)
	verdict(t, "no chip", d.lookAtLine("", "PQ.05"), statusFail, "no GPIO chip")
}

func TestASerialPortIsNotTheConsoleAndNobodyElsePlaysWithIt(t *testing.T) {
	list := []connection{{"arm", onSerial, "/dev/ttyUSB0", 0}, {"leg", onSerial, "/dev/ttyUSB0", 0}}
	d := examined(t, fakeMachine(board()), "composite")
	if found := d.ports(t.Context(), list); len(found) != 1 {
		t.Errorf("one port, found %+v", found)
	} else {
		verdict(t, "free", found[0], statusOK)
	}
	files := board()
	files["proc/77/comm"] = &fstest.MapFile{Data: []byte("ModemManager\n")}
	d.files = files
	verdict(t, "modem", d.ports(t.Context(), list)[0], statusWarn, "ModemManager", "disable --now")
	files["sys/class/tty/console/active"] = &fstest.MapFile{Data: []byte("tty0 ttyUSB0\n")}
	verdict(t, "console", d.ports(t.Context(), list)[0], statusFail, "kernel's console", "serial-getty@ttyUSB0")
	verdict(t, "none", d.ports(t.Context(), []connection{{"arm", onSerial, "/dev/ttyACM3", 0}})[0], statusFail, "is not there", "by-id")
}

// attribute is a netlink attribute, padded.

// linkMessage is an RTM_NEWLINK.

// canInfo is the IFLA_LINKINFO of a CAN controller.

func TestWhatABridgeNeedsIsLookedAtAndNotCalled(t *testing.T) {
	files := tree(map[string]string{"/run/robot": ""})
	for _, c := range []struct {
		set    []string
		status string
		word   string
	}{
		{[]string{"robot.bridge.address=unix:/run/robot"}, statusOK, "was not called"},
		{[]string{"robot.bridge.address=unix:/run/closed"}, statusWarn, "is not there yet"},
		{[]string{"robot.bridge.address=tcp:robot:7000"}, statusSkip, "not called"},
		{[]string{"robot.bridge.command=[sh, -c, \"true\"]"}, statusOK, "was not started"},
		{[]string{"robot.bridge.command=[no-such-program]"}, statusFail, "no-such-program"},
	} {
		d := examined(t, fakeMachine(files), "rover", append(c.set, "robot.driver=bridge", "operator.source=none")...)
		checks := d.deviceChecks()
		if len(checks) != 1 {
			t.Fatalf("%+v", checks)
		}
		verdict(t, c.set[0], checks[0].run(t.Context())[0], c.status, c.word)
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "dmc_bridge.py")
	for path, text := range map[string]string{
		script:                         "",
		filepath.Join(dir, "complete"): "#!/bin/sh\n[ \"$*\" = '" + script + " walker --help' ]\n",
		filepath.Join(dir, "bare"):     "#!/bin/sh\necho \"No module named 'mujoco'; pip install -r r.txt\"\nexit 1\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for interpreter, c := range map[string]struct{ script, status, word string }{
		"complete": {script, statusOK, "finds its packages"},
		"bare":     {script, statusFail, "No module named 'mujoco' > pip install -r r.txt"},
		"none":     {script, statusFail, "no such file"},
		"sh":       {"scripts/dmc_bridge.py", statusFail, "dmc_bridge.py: no such file or directory > run this command in"},
	} {
		if interpreter != "sh" {
			interpreter = filepath.Join(dir, interpreter)
		}
		command := "robot.bridge.command=[" + interpreter + ", " + c.script + ", walker]"
		d := examined(t, fakeMachine(files), "rover", "robot.driver=bridge", "operator.source=none", command)
		verdict(t, interpreter, d.bridge(t.Context()), c.status, c.word)
	}
	d := examined(t, fakeMachine(files), "rover", "robot.driver=bridge", "operator.source=none", "robot.bridge.address=unix:/run/robot")
	d.access = denies("/run/robot")
	verdict(t, "refused", d.bridge(t.Context()), statusFail, "permission denied")
}
