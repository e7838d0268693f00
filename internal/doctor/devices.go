package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/warthog618/go-gpiocdev"

	"optibfm/configs"
	"optibfm/hal"
	"optibfm/hal/bridge"
	"optibfm/hal/serial"
	"optibfm/internal/plaintext"
	"optibfm/internal/setup"
)

// The kinds of what a device is connected to.
const (
	onI2C    = "i2c"
	onSerial = "serial"
	onCAN    = "can"
	onLine   = "gpio" // a GPIO line beside the bus
)

// connection is where a device of the configuration is.
type connection struct {
	device  string // its name
	kind    string
	name    string // bus, port, interface or line
	address uint16 // on an I²C bus
}

// connections reads the section of a device's driver: a port, or one of the keys
// bus, interface and output_enable, which mean the same in every driver.
func connections(device string, section any) (list []connection) {
	v := reflect.ValueOf(section)
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		c := connection{device: device}
		switch value := v.Field(i).Interface().(type) {
		case serial.Config:
			c.kind, c.name = onSerial, value.Path
		case string:
			c.name = value
			switch key {
			case "bus":
				c.kind, c.address = onI2C, addressOf(section, value)
			case "interface":
				c.kind = onCAN
			case "output_enable":
				if value != "" {
					c.kind = onLine
				}
			}
		}
		if c.kind != "" {
			list = append(list, c)
		}
	}
	return list
}

// addressOf reads the address of an I²C device, with its driver's default, from
// how it says its place.
func addressOf(section any, bus string) (address uint16) {
	if p, ok := section.(interface{ Place() string }); ok {
		_, _ = fmt.Sscanf(strings.TrimPrefix(p.Place(), bus), ", address 0x%x", &address) // 0 says that there is none
	}
	return address
}

// deviceChecks are those of the devices of a configuration. All of them only
// look: files and interfaces are examined without being opened, but for I²C
// buses, where one register of each device is read, and GPIO chips, which are
// asked about their lines. Serial ports are not opened, which resets many a
// board, and robots behind a bridge are not called.
func (d *doctor) deviceChecks() []check {
	ids := []string{"device.i2c", "device.gpio", "device.serial", "device.can"}
	switch {
	case !d.configured:
		return []check{d.unasked("device.i2c", "robot")}
	case d.file.Robot.Driver == configs.DriverBridge:
		look := func(ctx context.Context) []finding { return []finding{d.bridge(ctx)} }
		return []check{{id: "device.bridge", limit: time.Minute, run: look}}
	case d.file.Robot.Driver != configs.DriverComposite:
		return []check{single("device.i2c", func() finding { return skipped("the robot is simulated (robot.driver: %s)", d.file.Robot.Driver) })}
	}
	var all []connection
	for _, device := range d.file.Robot.Composite.Devices {
		all = append(all, connections(device.Name, device.Section())...)
	}
	looks := []func(context.Context, []connection) []finding{d.buses, d.lines, d.ports, d.interfaces}
	var list []check
	for i, kind := range []string{onI2C, onLine, onSerial, onCAN} {
		of := slices.DeleteFunc(slices.Clone(all), func(c connection) bool { return c.kind != kind })
		if len(of) > 0 {
			list = append(list, check{id: ids[i], limit: 10 * time.Second, run: func(ctx context.Context) []finding { return looks[i](ctx, of) }})
		}
	}
	return append(list, single("device.bounds", d.bounds))
}

// bounds says what the robot's calls take at most where no bus answers, and compares it
// with the loop, as a run does before it arms.
func (d *doctor) bounds() finding {
	shares := d.file.Robot.Composite.Shares()
	var b hal.Bounds
	for _, s := range shares {
		b = b.Plus(s.Bounds)
	}
	values := map[string]float64{
		"sense_ms": inMS(b.Sense), "act_ms": inMS(b.Act), "arm_ms": inMS(b.Arm), "halt_ms": inMS(b.Halt),
		"period_ms": d.file.Loop.PeriodMS, "watchdog_ms": d.file.Loop.WatchdogMS,
	}
	found := fmt.Sprintf("Sense %v and Act %v at most%s, Arm %v, Halt %v; period %v ms, watchdog %v ms",
		b.Sense, b.Act, setup.FormatShares(shares, setup.TickBound), b.Arm, b.Halt, d.file.Loop.PeriodMS, d.file.Loop.WatchdogMS)
	if d.file.Run.Shadow {
		return fine("%s", found).with(values)
	}
	wrong, fatal := setup.CompareBounds(b, shares, d.file)
	switch {
	case fatal != nil:
		return broken(setup.TimeoutAdvice+", or raise loop.watchdog_ms", "%s: %v", found, fatal).with(values)
	case wrong != nil:
		return lacking(setup.TimeoutAdvice+", or raise what it is compared with", "%s: %v", found, errors.Join(wrong...)).with(values)
	}
	return fine("%s", found).with(values)
}

func inMS(t time.Duration) float64 { return t.Seconds() * 1e3 }

// byName groups connections that share a bus, port or interface, in their order.
func byName(list []connection) (names []string, of map[string][]connection) {
	of = map[string][]connection{}
	for _, c := range list {
		if of[c.name] == nil {
			names = append(names, c.name)
		}
		of[c.name] = append(of[c.name], c)
	}
	return names, of
}

// buses looks at I²C buses, and asks each device for one register.
func (d *doctor) buses(ctx context.Context, list []connection) (found []finding) {
	names, of := byName(list)
	for _, name := range names {
		f := d.reach(name, "I²C bus", "i2c-dev", "enable the bus in the device tree, `sudo modprobe i2c-dev`, see `i2cdetect -l`")
		if f.Status != statusOK {
			found = append(found, f.about(name))
			continue
		}
		bus, err := d.hardware.OpenI2C(name, d.file.Robot.Composite.I2CTimeout())
		if err != nil {
			found = append(found, broken("see `i2cdetect -l`", "%v", err).about(name))
			continue
		}
		found = append(found, f.about(name))
		for _, c := range of[name] {
			if ctx.Err() == nil {
				found = append(found, askRegister(bus, c))
			}
		}
		_ = bus.Close() // nothing was written
	}
	return found
}

// askRegister reads the first register of a device, which in every chip that we
// drive tells what it is or how it is set, and changes nothing.
func askRegister(bus interface {
	Tx(addr uint16, w, r []byte) error
}, c connection) finding {
	const tries = 3
	where := fmt.Sprintf("%#02x on %s", c.address, c.name)
	var answer [1]byte
	var err error
	for range tries {
		if err = bus.Tx(c.address, []byte{0}, answer[:]); err == nil {
			return fine("%s answers (register 0 is %#02x)", where, answer[0]).about(c.device)
		}
	}
	return broken(fmt.Sprintf("check power, wiring, pull-ups and address: `i2cdetect -y -r %s`", strings.TrimPrefix(path.Base(c.name), "i2c-")),
		"%s does not answer: %v", where, err).about(c.device)
}

// lines looks at the GPIO lines of devices.
func (d *doctor) lines(_ context.Context, list []connection) (found []finding) {
	for _, c := range list {
		chip, line, ok := strings.Cut(c.name, ":")
		if !ok {
			chip, line = "", c.name
		}
		found = append(found, d.lookAtLine(chip, line).about(c.device))
	}
	return found
}

// lookAtLine tells whether a line is there and free.
func (d *doctor) lookAtLine(chip, line string) finding {
	name := strings.TrimPrefix(chip+" line "+line, " ")
	state, err := d.line(chip, line)
	switch {
	case err == nil && state.Used:
		return broken("end what uses it, choose another line, or take it out of the device tree", "%s is used by %q", name, plaintext.Clean(state.By))
	case err == nil:
		return fine("%s: %s %d, free", name, state.Chip, state.Offset)
	}
	chips := []string{"/dev/" + path.Base(chip)}
	if chip == "" {
		chips = d.glob("/dev/gpiochip*")
	}
	if len(chips) == 0 {
		return broken("load the driver of the GPIO chip; see `gpiodetect`", "%s: this computer has no GPIO chip", name)
	}
	for _, p := range chips {
		if f := d.reach(p, "GPIO chip", "gpio", "see `gpiodetect` for what there is"); f.Status == statusFail {
			f.Found = name + ": " + f.Found
			return f
		}
	}
	if errors.Is(err, gpiocdev.ErrNotFound) {
		err = errors.New("no chip has a line of this name")
	}
	return broken("see `gpioinfo` for names and numbers", "%s: %v", name, err)
}

// ports looks at serial ports without opening them: that would raise DTR, which
// resets many boards.
func (d *doctor) ports(_ context.Context, list []connection) (found []finding) {
	names, _ := byName(list)
	for _, name := range names {
		f := d.reach(name, "serial port", "tty", "plug it in; see `ls -l /dev/serial/by-id`")
		if f.Status == statusOK {
			f = d.contested(name, f)
		}
		found = append(found, f.about(name))
	}
	return found
}

// contested looks for programs that take serial ports for their own.
func (d *doctor) contested(port string, f finding) finding {
	tty := filepath.Base(port)
	if target, err := filepath.EvalSymlinks(port); err == nil {
		tty = filepath.Base(target)
	}
	if consoles, _ := d.read("/sys/class/tty/console/active"); slices.Contains(strings.Fields(consoles), tty) {
		return broken(fmt.Sprintf("take `console=%s` off the kernel's command line, `sudo systemctl disable --now serial-getty@%s`", tty, tty),
			"%s is the kernel's console", port)
	}
	for _, p := range d.glob("/proc/[0-9]*/comm") {
		switch name, _ := d.read(p); name {
		case "ModemManager", "brltty":
			return doubtful(fmt.Sprintf("`sudo systemctl disable --now %s`", name), "%s: there, but %s runs, which talks to serial ports by itself", port, name)
		}
	}
	return f
}

// bridge looks at the program that a bridge starts. It does not connect to the robot: a server may move it
// then. The project's own scripts are asked for their help, for which they need their packages.
func (d *doctor) bridge(ctx context.Context) finding {
	b := d.file.Robot.Bridge
	if len(b.Command) > 0 {
		return d.bridgeCommand(ctx)
	}
	socket, local := strings.CutPrefix(b.Address, "unix:")
	if !local {
		return skipped("%s: not called", b.Address)
	}
	if _, err := fs.Stat(d.files, named(socket)); err != nil {
		return doubtful("start the robot's server before the run", "%s is not there yet", socket)
	}
	if err := d.access(socket); err != nil {
		return broken("let the server make its socket for this user's group", "%s: %v for %s", socket, err, d.user.Name)
	}
	return fine("%s is there; it was not called", socket)
}

// bridgeCommand looks for the program that serves the robot, and for what the project's scripts import.
func (d *doctor) bridgeCommand(ctx context.Context) finding {
	command := d.file.Robot.Bridge.Command
	program, err := exec.LookPath(command[0])
	if err != nil {
		return broken("install it, or correct robot.bridge.command", "%v", err)
	}
	script := setup.BridgeScript(d.file.Robot)
	if script == "" {
		return fine("%s is there; it was not started", program)
	}
	if _, err := os.Stat(script); err != nil {
		return broken(setup.RepositoryAdvice+", or correct robot.bridge.command", "%v", err)
	}
	if err := bridge.CheckScript(ctx, command); err != nil {
		found, fix, _ := strings.Cut(err.Error(), "; ")
		return broken(cmp.Or(fix, "run `"+strings.Join(command, " ")+" --help`"), "%s", plaintext.Clean(found))
	}
	return fine("%s %s finds its packages; it was not connected to", program, script)
}
