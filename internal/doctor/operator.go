package doctor

import (
	"context"
	"errors"
	"net"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"optibfm/configs"
	"optibfm/internal/plaintext"
	"optibfm/internal/safefile"
	"optibfm/internal/sections"
	"optibfm/rewardsrc/evdev"
	"optibfm/rewardsrc/gpio"
	"optibfm/rewardsrc/panel"
	"optibfm/rewardsrc/web"
)

func (d *doctor) operatorChecks() []check {
	o := d.file.Operator
	var list []check
	switch o.Source {
	case "evdev":
		list = append(list, single("operator.device", d.checkInputDevice))
	case "gpio":
		list = append(list, check{id: "operator.device", limit: checkLimit, run: d.checkButtons})
	default:
		list = append(list, single("operator.device", func() finding {
			return skip("operator.source: %s needs no device", o.Source)
		}))
	}
	if o.Source == configs.SourceWeb || o.Web.WatchOnly {
		list = append(list, single("operator.web", d.checkConsole))
	}
	return list
}

// checkInputDevice finds the reward device and its keys. It does not open the device, which would
// wake a sleeping one.
func (d *doctor) checkInputDevice() finding {
	cfg := sections.Get[evdev.Config](d.file.Operator.Sections)
	devices, err := d.inputs.List()
	if err != nil {
		return fail("see `ls /dev/input`", "%v", err)
	}
	var missing string
	for _, info := range devices {
		if !cfg.Device.Fits(info) {
			continue
		}
		if missing = missingKey(cfg, info); missing != "" {
			continue
		}
		node := path.Join("/dev/input", info.Node)
		if err := d.access(node); errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			return fail(evdev.PermissionFix, "%s: %v for %s", plaintext.Clean(info.String()), err, d.user.Name)
		}
		return pass("%s", plaintext.Clean(info.String()))
	}
	device := plaintext.Clean(cfg.Device.String())
	if missing != "" {
		return fail("`optibfm label bind`", "%s: no %s, which the configuration binds", device, missing)
	}
	return warn("connect it or switch it on; a run waits for it", "%s: not connected", device)
}

// missingKey returns the first bound key or axis that a device does not have.
func missingKey(cfg evdev.Config, info evdev.Info) string {
	for _, r := range panel.Roles() {
		name := *cfg.Button(r)
		if code, err := evdev.ParseKey(name); name != "" && (err != nil || !info.Keys.Has(code)) {
			return name
		}
	}
	if code, err := evdev.ParseAxis(cfg.Axis.Code); cfg.Axis.Code != "" && (err != nil || !info.Axes.Has(code)) {
		return cfg.Axis.Code
	}
	return ""
}

// checkButtons checks the GPIO lines of buttons, light and buzzer.
func (d *doctor) checkButtons(context.Context) (found []finding) {
	g := sections.Get[gpio.Config](d.file.Operator.Sections)
	check := func(role, line string) {
		if line != "" {
			found = append(found, d.checkLine(g.Chip, line).about(role))
		}
	}
	for _, r := range panel.Roles() {
		check(r.String(), *g.Button(r))
	}
	check("led", g.LED)
	check("buzzer", g.Buzzer)
	return found
}

// checkConsole reads the certificate and listens on the console's address for a moment.
func (d *doctor) checkConsole() finding {
	w := d.file.Operator.Web
	for _, file := range []string{w.CertFile, w.KeyFile} {
		if file == "" {
			continue
		}
		if _, err := safefile.Read(file, web.MaxPEM); err != nil {
			return fail("let this user read the file", "%v", err)
		}
	}
	listener, err := net.Listen("tcp", w.Listen)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return warn("end the run or the program that uses it (`ss -ltnp`)", "%s: in use", w.Listen)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return warn("a run waits for it; `ip address` lists the current ones",
			"%s: not an address of this computer", w.Listen)
	case errors.Is(err, unix.EACCES):
		return fail("choose a port above 1023", "%s: %v", w.Listen, err)
	case err != nil:
		return fail("correct operator.web.listen; `ip address` lists this computer's addresses", "%v", err)
	}
	if err := listener.Close(); err != nil {
		return fail("see `dmesg`", "%v", err)
	}
	return pass("%s: free; a run opens %s", w.Listen, strings.Join(web.Addresses(w, listener.Addr()), ", "))
}
