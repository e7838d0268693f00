package doctor

import (
	"testing"

	"golang.org/x/sys/unix"

	"optibfm/hal/can"
	"optibfm/internal/registry"
)

func TestDoctor_GradesCANInterfaces(t *testing.T) {
	running := can.Link{CAN: true, Up: true, QueueLength: 64, Bitrate: 1_000_000, RestartMillis: 100}
	with := func(change func(*can.Link)) can.Link {
		l := running
		change(&l)
		return l
	}
	links := map[string]can.Link{
		"good0":       running,
		"ether0":      {Up: true},
		"down0":       {CAN: true, Controller: can.Stopped},
		"virtual0":    {CAN: true, Virtual: true, Up: true},
		"rate0":       with(func(l *can.Link) { l.Bitrate = 0 }),
		"off0":        with(func(l *can.Link) { l.Controller = can.BusOff }),
		"stopped0":    with(func(l *can.Link) { l.Controller = can.Stopped }),
		"passive0":    with(func(l *can.Link) { l.Controller = can.ErrorPassive }),
		"norestart0":  with(func(l *can.Link) { l.RestartMillis = 0 }),
		"shortqueue0": with(func(l *can.Link) { l.QueueLength = 1 }),
	}
	m := fakeMachine(tree())
	missing := m.link
	m.link = func(name string) (can.Link, error) {
		if l, ok := links[name]; ok {
			return l, nil
		}
		if name == "forbidden0" {
			return can.Link{}, unix.EPERM
		}
		return missing(name)
	}
	d := doctorFor(t, m, "composite")
	for name, c := range map[string]struct {
		status string
		words  []string
	}{
		"good0":       {statusOK, []string{"1000000 bit/s, restart after 100 ms"}},
		"ether0":      {statusFail, []string{"not a CAN interface"}},
		"down0":       {statusFail, []string{"down", "ip link set down0"}},
		"virtual0":    {statusOK, []string{"virtual"}},
		"rate0":       {statusWarn, []string{"no bit rate"}},
		"off0":        {statusFail, []string{"bus-off", "120 Ω"}},
		"stopped0":    {statusFail, []string{"bus-off"}},
		"passive0":    {statusWarn, []string{"error-passive"}},
		"norestart0":  {statusWarn, []string{"no restart", "restart-ms"}},
		"none0":       {statusFail, []string{"no such interface"}},
		"forbidden0":  {statusWarn, []string{"not permitted"}},
		"unix:/tmp/s": {statusSkip, []string{"simulator"}},
	} {
		found := d.checkCAN(t.Context(), []connection{at("leg", registry.OnCAN, name, 0)})
		if len(found) != 1 {
			t.Fatalf("%s: %+v", name, found)
		}
		expect(t, name, found[0], c.status, c.words...)
	}
	found := d.checkCAN(t.Context(), []connection{at("leg", registry.OnCAN, "shortqueue0", 0)})
	if len(found) != 2 {
		t.Fatalf("%+v, want the queue too", found)
	}
	expect(t, "queue", found[1], statusWarn, "1 frames", "txqueuelen")
}
