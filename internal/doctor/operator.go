package doctor

import (
	"context"
	"errors"
	"net"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"optibfm/configs"
	"optibfm/internal/plaintext"
	"optibfm/rewardsrc/evdev"
)

func (d *doctor) operatorChecks() []check {
	if !d.configured {
		return []check{d.unasked("operator.device", "operator")}
	}
	o := d.file.Operator
	var list []check
	switch o.Source {
	case configs.SourceEvdev:
		list = append(list, single("operator.device", d.inputDevice))
	case configs.SourceGPIO:
		list = append(list, check{id: "operator.device", run: d.buttons})
	default:
		list = append(list, single("operator.device", func() finding { return skipped("operator.source: %s needs no device", o.Source) }))
	}
	if o.Source == configs.SourceWeb || o.Web.WatchOnly {
		list = append(list, single("operator.web", d.webConsole))
	}
	return list
}

// inputDevice finds the reward device without opening it, so that a sleeping one
// sleeps on.
func (d *doctor) inputDevice() finding {
	cfg := d.file.Operator.Evdev
	devices, err := d.inputs.List()
	if err != nil {
		return broken("see `ls /dev/input`", "%v", err)
	}
	var without string
	for _, info := range devices {
		if !cfg.Device.Fits(info) {
			continue
		}
		if without = lacksKey(cfg, info); without != "" {
			continue
		}
		node := path.Join("/dev/input", info.Node)
		if err := d.access(node); errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			return broken(evdev.PermissionFix, "%s: %v for %s", plaintext.Clean(info.String()), err, d.user.Name)
		}
		return fine("%s", plaintext.Clean(info.String()))
	}
	if without != "" {
		return broken("`optibfm label bind`", "%s has no %s, which is bound", plaintext.Clean(cfg.Device.String()), without)
	}
	return doubtful("plug it in or switch it on; a run waits for it", "%s is not connected", plaintext.Clean(cfg.Device.String()))
}

// lacksKey names something bound that a device does not have.
func lacksKey(cfg evdev.Config, info evdev.Info) string {
	for _, name := range []string{cfg.Good, cfg.Bad, cfg.CantTell, cfg.Undo} {
		if code, err := evdev.ParseKey(name); name != "" && (err != nil || !info.Keys.Has(code)) {
			return name
		}
	}
	if code, err := evdev.ParseAxis(cfg.Axis.Code); cfg.Axis.Code != "" && (err != nil || !info.Axes.Has(code)) {
		return cfg.Axis.Code
	}
	return ""
}

// buttons looks at the lines of buttons, light and buzzer.
func (d *doctor) buttons(context.Context) (found []finding) {
	g := d.file.Operator.GPIO
	for _, l := range []struct{ role, line string }{
		{"good", g.Good}, {"bad", g.Bad}, {"cant_tell", g.CantTell}, {"undo", g.Undo}, {"led", g.LED}, {"buzzer", g.Buzzer},
	} {
		if l.line != "" {
			found = append(found, d.lookAtLine(g.Chip, l.line).about(l.role))
		}
	}
	return found
}

// webConsole tries whether the console can listen where it is to.
func (d *doctor) webConsole() finding {
	w := d.file.Operator.Web
	for _, file := range []string{w.CertFile, w.KeyFile} {
		if file == "" {
			continue
		}
		if f, err := os.Open(file); err != nil {
			return broken("let this user read it", "%v", err)
		} else if err := f.Close(); err != nil {
			return broken("see `dmesg`", "%v", err)
		}
	}
	listener, err := net.Listen("tcp", w.Listen)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return doubtful("a run may be going on; else `ss -ltnp` tells who it is", "%s is taken", w.Listen)
	case errors.Is(err, unix.EACCES):
		return broken("choose a port from 1024 on", "%s: %v", w.Listen, err)
	case err != nil:
		return broken("correct operator.web.listen; see `ip address` for this computer's", "%v", err)
	}
	if err := listener.Close(); err != nil {
		return broken("see `dmesg`", "%v", err)
	}
	return fine("%s can be listened on", w.Listen)
}
