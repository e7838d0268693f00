package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"optibfm/hal/can"
)

// checkCAN checks CAN interfaces. It sends no frames.
func (d *doctor) checkCAN(_ context.Context, list []connection) (found []finding) {
	names, devices := byName(list)
	for _, name := range names {
		if socket, simulated := strings.CutPrefix(name, "unix:"); simulated {
			found = append(found, skip("simulator at %s: not connected", socket).about(name))
			continue
		}
		l, err := d.link(name)
		switch {
		case errors.Is(err, can.ErrNoInterface):
			found = append(found, fail("connect the adapter, or load its driver; see `ip link show type can`",
				"%s: no such interface", name).about(name))
			continue
		case err != nil:
			found = append(found, warn("see `ip -details link show`", "%v", err).about(name))
			continue
		}
		found = append(found, gradeLink(name, l).about(name))
		if l.QueueLength > 0 && l.QueueLength < 2*len(devices[name]) {
			found = append(found, warn(fmt.Sprintf("`sudo ip link set %s txqueuelen 64`", name),
				"%s: the transmit queue has %d frames", name, l.QueueLength).about(name))
		}
	}
	return found
}

func gradeLink(name string, l can.Link) finding {
	up := fmt.Sprintf("`sudo ip link set %[1]s type can bitrate 1000000 restart-ms 100`, "+
		"`sudo ip link set %[1]s txqueuelen 64 up`, at every boot", name)
	const wiring = "check wiring, termination (two times 120 Ω) and bit rate"
	text := fmt.Sprintf("%s: up, %d bit/s", name, l.Bitrate)
	switch {
	case !l.CAN:
		return fail("name a CAN interface: `ip link show type can`", "%s: not a CAN interface", name)
	case !l.Up:
		return fail(up, "%s: down", name)
	case l.Virtual:
		return pass("%s: virtual, up", name)
	case l.Bitrate == 0:
		return warn("compare the adapter's bit rate with that of the motors", "%s: up, no bit rate reported", name)
	case l.Controller == can.BusOff || l.Controller == can.Stopped:
		return fail(fmt.Sprintf("%s; then `sudo ip link set %[2]s down`, `sudo ip link set %[2]s up`", wiring, name),
			"%s, bus-off: the controller has left the bus", text)
	case l.Controller == can.ErrorPassive:
		return warn(wiring+": no device acknowledges", "%s, error-passive", text)
	case l.RestartMillis == 0:
		return warn(fmt.Sprintf("`sudo ip link set %s type can restart-ms 100`, while it is down", name),
			"%s, no restart after bus-off", text)
	}
	return pass("%s, restart after %d ms", text, l.RestartMillis)
}
