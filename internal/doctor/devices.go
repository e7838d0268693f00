package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/warthog618/go-gpiocdev"

	"optibfm/internal/plaintext"
	"optibfm/internal/registry"
	"optibfm/internal/setup"
)

// connection is the place of a device.
type connection = registry.Connection

// deviceChecks returns the checks of the robot's devices.
func (d *doctor) deviceChecks() []check {
	section := d.file.Robot.Chosen()
	if run := registry.Check(d.file.Robot.Driver); run != nil {
		findings := func(ctx context.Context) (all []finding) {
			for _, f := range run(ctx, section, d) {
				all = append(all, finding{Status: f.Status, Found: f.Found, Fix: f.Fix})
			}
			return all
		}
		list := []check{{id: "device." + d.file.Robot.Driver, limit: time.Minute, run: findings}}
		if _, ok := section.(registry.Describer); ok {
			list = append(list, single("device.start", d.checkStart))
		}
		return list
	}
	wired, ok := section.(registry.Wired)
	if !ok {
		return []check{single("device", func() finding {
			if setup.Simulated(d.file.Robot) {
				return skip("simulated robot (robot.driver: %s)", d.file.Robot.Driver)
			}
			return skip("the driver %s has no check", d.file.Robot.Driver)
		})}
	}
	all := wired.Connections()
	var list []check
	for _, kind := range []struct {
		name string
		run  func(context.Context, []connection) []finding
	}{
		{registry.OnI2C, d.checkI2C}, {registry.OnLine, d.checkGPIO}, {registry.OnSerial, d.checkSerial},
		{registry.OnCAN, d.checkCAN},
	} {
		matching := slices.DeleteFunc(slices.Clone(all), func(c connection) bool { return c.Kind != kind.name })
		if len(matching) > 0 {
			list = append(list, check{id: "device." + kind.name, limit: 10 * time.Second,
				run: func(ctx context.Context) []finding { return kind.run(ctx, matching) }})
		}
	}
	return append(list, single("device.bounds", d.checkBounds), single("device.start", d.checkStart))
}

// checkStart checks that motion can begin where the robot is.
func (d *doctor) checkStart() finding {
	impossible, cannotArm := setup.CheckStart(d.file)
	if err := errors.Join(impossible, cannotArm); err != nil {
		return fail("correct the named key", "this robot cannot be armed: %v", err)
	}
	return pass("every position is measured or accepted, and limited")
}

// checkBounds compares the longest durations of the robot's calls with the loop, as a run does
// before it arms.
func (d *doctor) checkBounds() finding {
	b, shares := setup.BoundsOfFile(d.file)
	loop := d.file.Loop
	values := map[string]float64{
		"sense_ms": ms(b.Sense), "act_ms": ms(b.Act), "arm_ms": ms(b.Arm), "halt_ms": ms(b.Halt),
		"period_ms": loop.PeriodMS, "watchdog_ms": loop.WatchdogMS,
	}
	text := fmt.Sprintf("longest Sense %v, Act %v%s, Arm %v, Halt %v; period %v ms, watchdog %v ms",
		b.Sense, b.Act, setup.FormatShares(shares, setup.TickBound), b.Arm, b.Halt, loop.PeriodMS, loop.WatchdogMS)
	f := pass("%s", text)
	wrong, fatal := setup.CompareBounds(b, shares, d.file)
	switch {
	case fatal != nil:
		f = fail(setup.TimeoutAdvice+", or raise loop.watchdog_ms", "%s: %v", text, fatal)
	case wrong != nil:
		f = warnStrict(setup.TimeoutAdvice+", or raise the named key", "%s: %v", text, errors.Join(wrong...))
	}
	return f.with(values)
}

// byName groups connections by bus, port or interface, in their order.
func byName(list []connection) (names []string, devices map[string][]connection) {
	devices = map[string][]connection{}
	for _, c := range list {
		if devices[c.Name] == nil {
			names = append(names, c.Name)
		}
		devices[c.Name] = append(devices[c.Name], c)
	}
	return names, devices
}

// checkI2C opens each I²C bus and reads one register of each device.
func (d *doctor) checkI2C(ctx context.Context, list []connection) (found []finding) {
	names, devices := byName(list)
	for _, name := range names {
		f := d.checkDeviceFile(name, "I²C bus", "i2c-dev",
			"enable the bus in the device tree, `sudo modprobe i2c-dev`, see `i2cdetect -l`").about(name)
		if f.Status != statusOK {
			found = append(found, f)
			continue
		}
		bus, err := d.openI2C(name)
		if err != nil {
			found = append(found, fail("see `i2cdetect -l`", "%v", err).about(name))
			continue
		}
		found = append(found, f)
		for _, c := range devices[name] {
			if ctx.Err() == nil {
				found = append(found, readFirstRegister(bus, c))
			}
		}
		_ = bus.Close() // nothing was written
	}
	return found
}

// readFirstRegister reads register 0. In every supported chip it is an identifier or a setting, and
// reading it changes nothing.
func readFirstRegister(bus registry.I2C, c connection) finding {
	const tries = 3
	place := fmt.Sprintf("%#02x on %s", c.Address, c.Name)
	var register [1]byte
	var err error
	for range tries {
		if err = bus.Tx(c.Address, []byte{0}, register[:]); err == nil {
			return pass("%s answers (register 0 is %#02x)", place, register[0]).about(c.Device)
		}
	}
	number := strings.TrimPrefix(path.Base(c.Name), "i2c-")
	return fail(fmt.Sprintf("check power, wiring, pull-ups and address: `i2cdetect -y -r %s`", number),
		"%s does not answer: %v", place, err).about(c.Device)
}

func (d *doctor) checkGPIO(_ context.Context, list []connection) (found []finding) {
	for _, c := range list {
		chip, line, ok := strings.Cut(c.Name, ":")
		if !ok {
			chip, line = "", c.Name
		}
		found = append(found, d.checkLine(chip, line).about(c.Device))
	}
	return found
}

// checkLine checks that a GPIO line exists and is free.
func (d *doctor) checkLine(chip, line string) finding {
	name := strings.TrimPrefix(chip+" line "+line, " ")
	state, err := d.line(chip, line)
	switch {
	case err == nil && state.Used:
		return fail("end the program that uses it, choose another line, or remove it from the device tree",
			"%s: used by %q", name, plaintext.Clean(state.By))
	case err == nil:
		return pass("%s: %s %d, free", name, state.Chip, state.Offset)
	}
	chips := []string{"/dev/" + path.Base(chip)}
	if chip == "" {
		chips = d.glob("/dev/gpiochip*")
	}
	if len(chips) == 0 {
		return fail("load the driver of the GPIO chip; see `gpiodetect`", "%s: no GPIO chip", name)
	}
	for _, p := range chips {
		if f := d.checkDeviceFile(p, "GPIO chip", "gpio", "see `gpiodetect` for the chips"); f.Status == statusFail {
			f.Found = name + ": " + f.Found
			return f
		}
	}
	if errors.Is(err, gpiocdev.ErrNotFound) {
		err = errors.New("no chip has a line with this name")
	}
	return fail("see `gpioinfo` for names and numbers", "%s: %v", name, err)
}

// checkSerial checks serial ports without opening them.
func (d *doctor) checkSerial(_ context.Context, list []connection) (found []finding) {
	names, _ := byName(list)
	for _, name := range names {
		f := d.checkDeviceFile(name, "serial port", "tty", "connect it; see `ls -l /dev/serial/by-id`")
		if f.Status == statusOK {
			f = d.checkPortUsers(name, f)
		}
		found = append(found, f.about(name))
	}
	return found
}

// checkPortUsers finds other users of a serial port: the kernel's console, and services that probe
// every port.
func (d *doctor) checkPortUsers(port string, otherwise finding) finding {
	tty := filepath.Base(port)
	if target, err := filepath.EvalSymlinks(port); err == nil {
		tty = filepath.Base(target)
	}
	if consoles, _ := d.read("/sys/class/tty/console/active"); slices.Contains(strings.Fields(consoles), tty) {
		return fail(fmt.Sprintf("remove `console=%[1]s` from the kernel's command line, "+
			"`sudo systemctl disable --now serial-getty@%[1]s`", tty), "%s: the kernel's console", port)
	}
	for _, p := range d.glob("/proc/[0-9]*/comm") {
		switch name, _ := d.read(p); name {
		case "ModemManager", "brltty":
			return warn(fmt.Sprintf("`sudo systemctl disable --now %s`", name),
				"%s: present, but %s runs, which writes to serial ports", port, name)
		}
	}
	return otherwise
}

// openI2C opens a bus of the robot, or of the test that replaces it.
func (d *doctor) openI2C(path string) (registry.I2C, error) {
	if d.buses != nil {
		return d.buses(path)
	}
	return d.file.Robot.Chosen().(registry.Wired).OpenI2C(path)
}

// Exists implements registry.Computer.
func (d *doctor) Exists(path string) bool {
	_, err := fs.Stat(d.files, relative(path))
	return err == nil
}

// Access implements registry.Computer.
func (d *doctor) Access(path string) error { return d.access(path) }

// User implements registry.Computer.
func (d *doctor) User() string { return d.user.Name }
