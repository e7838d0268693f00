package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/warthog618/go-gpiocdev"

	"optibfm/hal/assembly"
	"optibfm/internal/fatal"
	"optibfm/internal/registry"
	"optibfm/internal/rigtest"
)

func TestMachine_ChecksDeviceFileAndRights(t *testing.T) {
	files := board()
	addDevice(files, "/dev/rooted", 0)
	files["dev/plain"] = &fstest.MapFile{Mode: 0o644}
	m := fakeMachine(files)
	m.access = denied("/dev/ttyUSB0", "/dev/rooted")
	for p, c := range map[string]struct {
		status string
		words  []string
	}{
		"/dev/i2c-1":   {statusOK, []string{"access granted"}},
		"/dev/i2c-9":   {statusFail, []string{"no such file", "connect it"}},
		"/dev/plain":   {statusFail, []string{"want a gadget"}},
		"/dev/ttyUSB0": {statusFail, []string{"permission denied for optibfm", "usermod -aG dialout optibfm"}},
		"/dev/rooted":  {statusFail, []string{"group root", `SUBSYSTEM=="tty"`, "udevadm"}},
	} {
		expect(t, p, m.checkDeviceFile(p, "gadget", "tty", "connect it"), c.status, c.words...)
	}
}

func TestDoctor_ComparesBoundsWithLoop(t *testing.T) {
	d := doctorFor(t, fakeMachine(board()), "composite")
	expect(t, "ready configuration", d.checkBounds(), statusOK,
		"Sense 12ms, Act 24ms (imu 12ms, base 24ms)", "Halt 36ms", "period 50 ms", "watchdog ")
	rigtest.EditRobot(&d.file, func(c *assembly.Config) { c.I2CTimeoutMS = 15 }) // rounded up to 20
	expect(t, "above the period", d.checkBounds(), statusWarn, "loop.period_ms: found 50ms", "72ms", "i2c_timeout_ms")
	rigtest.EditRobot(&d.file, func(c *assembly.Config) { c.I2CTimeoutMS = 1000 })
	expect(t, "above the watchdog", d.checkBounds(), statusFail, "loop.watchdog_ms: found")
	d.file.Run.Shadow = true
	expect(t, "shadow", d.checkBounds(), statusOK, "Sense 1.2s")
}

func TestDoctor_ReadsOneRegisterPerI2CDeviceAndWritesNone(t *testing.T) {
	m := fakeMachine(board())
	rig := rigtest.NewRig()
	m.buses = func(path string) (registry.I2C, error) { return rig.Hardware().OpenI2C(path, 10*time.Millisecond) }
	before := rig.Pwm.Registers
	d := doctorFor(t, m, "composite")
	list := []connection{
		at("imu", registry.OnI2C, "/dev/i2c-1", 0x28),
		at("base", registry.OnI2C, "/dev/i2c-1", 0x40),
		at("other", registry.OnI2C, "/dev/i2c-1", 0x50),
		at("far", registry.OnI2C, "/dev/i2c-3", 0x50),
	}
	found := d.checkI2C(t.Context(), list)
	if len(found) != 5 {
		t.Fatalf("%+v", found)
	}
	expect(t, "bus", found[0], statusOK, "/dev/i2c-1")
	expect(t, "imu", found[1], statusOK, "0x28", "register 0 is 0xa0") // CHIP_ID of a BNO055
	expect(t, "base", found[2], statusOK, "0x40")
	expect(t, "other", found[3], statusFail, "0x50 on /dev/i2c-1 does not answer", "i2cdetect -y -r 1")
	expect(t, "far", found[4], statusFail, "/dev/i2c-3: no such file", "i2c-dev")
	if rig.Pwm.Registers != before {
		t.Error("a register of the PWM changed")
	}
	d.buses = func(string) (registry.I2C, error) { return nil, errors.New("SMBus only") }
	expect(t, "cannot be opened", d.checkI2C(t.Context(), list[:1])[0], statusFail, "SMBus only")
}

func TestDoctor_ChecksGPIOLines(t *testing.T) {
	m := fakeMachine(board())
	states := map[string]lineState{
		":GPIO17":     {Chip: "gpiochip0", Offset: 17},
		"gpiochip0:4": {Chip: "gpiochip0", Offset: 4, Used: true, By: "spi0 CS0"},
	}
	m.line = func(chip, line string) (lineState, error) {
		if s, ok := states[chip+":"+line]; ok {
			return s, nil
		}
		return lineState{}, gpiocdev.ErrNotFound
	}
	d := doctorFor(t, m, "composite")
	for name, c := range map[string]struct {
		status string
		words  []string
	}{
		"GPIO17":      {statusOK, []string{"gpiochip0 17, free"}},
		"gpiochip0:4": {statusFail, []string{`used by "spi0 CS0"`}},
		"PQ.05":       {statusFail, []string{"no chip has a line", "gpioinfo"}},
		"gpiochip7:1": {statusFail, []string{"/dev/gpiochip7: no such file"}},
	} {
		expect(t, name, d.checkGPIO(t.Context(), []connection{{Device: "base", Name: name}})[0], c.status, c.words...)
	}
	d.access = denied("/dev/gpiochip0")
	expect(t, "no rights", d.checkLine("", "PQ.05"), statusFail, "permission denied", "usermod -aG gpio optibfm")
	d.files = tree(jetson)
	expect(t, "no chip", d.checkLine("", "PQ.05"), statusFail, "no GPIO chip")
}

func TestDoctor_FindsOtherUsersOfSerialPort(t *testing.T) {
	list := []connection{at("arm", registry.OnSerial, "/dev/ttyUSB0", 0), at("leg", registry.OnSerial, "/dev/ttyUSB0", 0)}
	d := doctorFor(t, fakeMachine(board()), "composite")
	if found := d.checkSerial(t.Context(), list); len(found) != 1 {
		t.Errorf("%+v, want one finding for one port", found)
	} else {
		expect(t, "free", found[0], statusOK)
	}
	files := board()
	d.files = files
	files["proc/77/comm"] = &fstest.MapFile{Data: []byte("ModemManager\n")}
	expect(t, "modem", d.checkSerial(t.Context(), list)[0], statusWarn, "ModemManager", "disable --now")
	files["sys/class/tty/console/active"] = &fstest.MapFile{Data: []byte("tty0 ttyUSB0\n")}
	expect(t, "console", d.checkSerial(t.Context(), list)[0], statusFail, "kernel's console", "serial-getty@ttyUSB0")
	list[0].Name = "/dev/ttyACM3"
	expect(t, "none", d.checkSerial(t.Context(), list[:1])[0], statusFail, "no such file", "by-id")
}

// bridgeDoctor returns a doctor for a robot behind a bridge.
func bridgeDoctor(t *testing.T, key string) *doctor {
	t.Helper()
	files := tree(map[string]string{"/run/robot": ""})
	return doctorFor(t, fakeMachine(files), "rover", "robot.bridge."+key, "robot.driver=bridge", "operator.source=none")
}

func TestDoctor_ChecksBridgeWithoutConnecting(t *testing.T) {
	for key, c := range map[string]struct{ status, word string }{
		"address=unix:/run/robot":             {statusOK, "not connected"},
		"address=unix:/run/closed":            {statusWarn, "no such socket"},
		"address=tcp:robot:7000":              {statusSkip, "not connected"},
		"command=[sh, -c, \"true\"]":          {statusOK, "not started"},
		"command=[no-such-program]":           {statusFail, "no-such-program"},
		"command=[sh, scripts/dmc_bridge.py]": {statusFail, "dmc_bridge.py: no such file or directory"},
	} {
		checks := bridgeDoctor(t, key).deviceChecks()
		if len(checks) != 1 {
			t.Fatalf("%+v", checks)
		}
		expect(t, key, checks[0].run(t.Context())[0], c.status, c.word)
	}
	d := bridgeDoctor(t, "address=unix:/run/robot")
	d.access = denied("/run/robot")
	expect(t, "no rights", d.deviceChecks()[0].run(t.Context())[0], statusFail, "permission denied")
}

func TestDoctor_ChecksPackagesOfBridgeScript(t *testing.T) {
	dir := t.TempDir()
	script, python := filepath.Join(dir, "dmc_bridge.py"), filepath.Join(dir, "python")
	for answer, c := range map[string]struct{ status, word string }{
		"exit 0": {statusOK, "all packages found"},
		"echo \"No module named 'mujoco'; pip install -r r.txt\"; exit 1": {
			statusFail, "No module named 'mujoco' > pip install -r r.txt"},
	} {
		for path, text := range map[string]string{script: "", python: "#!/bin/sh\n" + answer + "\n"} {
			fatal.If(t, os.WriteFile(path, []byte(text), 0o700))
		}
		d := bridgeDoctor(t, "command=["+python+", "+script+", walker]")
		expect(t, answer, d.deviceChecks()[0].run(t.Context())[0], c.status, c.word)
	}
}

func at(device, kind, name string, address uint16) connection {
	return connection{Device: device, Kind: kind, Name: name, Address: address}
}
