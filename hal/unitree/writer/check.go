package writer

import (
	"context"
	"fmt"
	"time"

	"optibfm/hal/unitree"
	"optibfm/hal/unitree/dds"
	"optibfm/hal/unitree/probe"
	"optibfm/rtloop"
)

const (
	listenFor  = 3 * time.Second // for the first state
	measureFor = time.Second     // of states
	serviceFor = 5 * time.Second
	releaseFor = 20 * time.Second
)

// Check looks at the robot's network. It writes no command.
func Check(ctx context.Context, c unitree.Config) (r probe.Report) {
	library, err := dds.Open(c.Library)
	if err != nil {
		return r.Bad("install libddsc 0.10, or set robot.unitree.library (docs/unitree.md)", "%v", err)
	}
	r = r.OK("Cyclone DDS %s: %s", library.Version, library.Path)
	r, found := r.CheckInterface(c.Interface)
	if !found {
		return r
	}
	p, err := library.Join(uint32(c.Domain), c.Interface)
	if err != nil {
		return r.Bad("see `ip link` and `ip addr`", "%v", err)
	}
	defer p.Close()
	b, err := newBus(p, c.Model, use{overhear: true, ours: func(dds.GUID) bool { return false }})
	if err != nil {
		return r.Bad("", "%v", err)
	}
	r = checkStates(ctx, r, c, b)
	return checkController(ctx, checkWriters(r, c, b), c, p)
}

// checkStates judges what the robot sends.
func checkStates(ctx context.Context, r probe.Report, c unitree.Config, b bus) probe.Report {
	s := newStates(c, b)
	begin, first := rtloop.Now(), uint32(0)
	for end := begin + int64(listenFor); rtloop.Now() < end && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		if err := s.read(rtloop.Now()); err != nil {
			return r.Bad("", "%v", err)
		}
		if first == 0 && s.received > 0 {
			first, begin = s.received, rtloop.Now()
			end = begin + int64(measureFor)
		}
	}
	if s.received == 0 {
		fault, _ := s.fault(rtloop.Now())
		return r.Bad("check the robot, its cable and unitree.model", "no good state within %v: %v (%d with a wrong checksum)",
			listenFor, unitree.FaultError(fault), s.badCRC)
	}
	l := &s.last
	rate := float64(s.received-first) / time.Duration(rtloop.Now()-begin).Seconds()
	r = r.OK("rt/lowstate: %.0f states a second, tick %d, mode_machine %d", rate, l.tick, l.modeMachine)
	if s.badCRC > 0 || s.frozen > 0 {
		r = r.Warn("see docs/unitree.md", "%d states had a wrong checksum, %d an old tick", s.badCRC, s.frozen)
	}
	if fault, detail := s.fault(rtloop.Now()); fault != unitree.FaultNone {
		r = r.Bad("", "%v (%d)", unitree.FaultError(fault), detail)
	}
	if i := s.missing(); i >= 0 {
		r = r.Bad("check robot.unitree.model: a G1 with 23 joints is another robot", "motor %s sends nothing",
			unitree.Joints(c.Model)[i].Name)
	}
	hottest := float32(0)
	for _, t := range l.temperature[:s.joints] {
		hottest = max(hottest, t)
	}
	text := fmt.Sprintf("hottest motor %.0f °C", hottest)
	if l.battery >= 0 {
		text += fmt.Sprintf(", battery %d %%", l.battery)
	}
	r = r.OK("%s", text)
	if l.remote == [len(l.remote)]uint8{} && c.Remote.Use == unitree.Required {
		return r.Bad("switch the remote control on", "the remote control is off")
	}
	return r
}

// checkWriters looks for other writers of commands.
func checkWriters(r probe.Report, c unitree.Config, b bus) probe.Report {
	n, sent, err := b.others(true)
	verb := map[bool]string{true: "writes", false: "may write"}[sent]
	switch {
	case err != nil:
		return r.Bad("", "%v", err)
	case n > 0 && (sent || c.OtherWriters == unitree.Refuse):
		return r.Bad("end it; if it is the robot's own controller: "+releaseAdvice(c)+"; see robot.unitree.other_writers",
			"another program %s rt/lowcmd (%d found)", verb, n)
	}
	return r.OK("no other program writes rt/lowcmd (tolerated silent ones: %d)", n)
}

// checkController looks for the robot's own controller.
func checkController(ctx context.Context, r probe.Report, c unitree.Config, p *dds.Participant) probe.Report {
	client, err := dds.NewClient(p, dds.MotionSwitcher)
	if err != nil {
		return r.Bad("", "%v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, serviceFor)
	defer cancel()
	release := releaseAdvice(c)
	switch name, err := client.Controller(ctx); {
	case err != nil:
		return r.Warn(release, "the robot does not say whether its own controller is active: %v", err)
	case name != "":
		return r.Bad(release, "the robot's own controller (%s) is active", name)
	}
	return r.OK("the robot's own controller is released")
}

// releaseAdvice describes how to release the robot's own controller.
func releaseAdvice(c unitree.Config) string {
	text := fmt.Sprintf("hang the robot or lay it down, then: optibfm-unitree release -interface %s -model %s",
		c.Interface, c.Model)
	if c.Library != "" {
		text += " -library " + c.Library
	}
	if c.Model == unitree.G1 {
		text += "; or its debug mode: L2+R2 on the remote control"
	}
	return text
}

// Release releases the robot's own controller. The motors lose their torque.
func Release(ctx context.Context, c unitree.Config) error {
	library, err := dds.Open(c.Library)
	if err != nil {
		return err
	}
	p, err := library.Join(uint32(c.Domain), c.Interface)
	if err != nil {
		return err
	}
	defer p.Close()
	client, err := dds.NewClient(p, dds.MotionSwitcher)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, releaseFor)
	defer cancel()
	return client.Release(ctx)
}
