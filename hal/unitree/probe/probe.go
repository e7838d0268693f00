// Package probe looks at a Unitree robot's network and reports its findings. It writes nothing
// that moves the robot.
package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"

	"optibfm/hal/unitree"
)

// Finding is one line of a report.
type Finding struct {
	OK   bool   // nothing is wrong
	Warn bool   // not OK, but no obstacle
	Text string // what was found
	Fix  string // what helps, if it is not OK
}

// Report lists findings, of which a person reads the first one that is not OK.
type Report []Finding

// OK adds a finding.
func (r Report) OK(format string, values ...any) Report {
	return append(r, Finding{OK: true, Text: fmt.Sprintf(format, values...)})
}

// Bad adds an obstacle.
func (r Report) Bad(fix, format string, values ...any) Report {
	return append(r, Finding{Text: fmt.Sprintf(format, values...), Fix: fix})
}

// Warn adds a finding that is not an obstacle.
func (r Report) Warn(fix, format string, values ...any) Report {
	return append(r, Finding{Warn: true, Text: fmt.Sprintf(format, values...), Fix: fix})
}

// Run runs `optibfm-unitree check`, which can load libddsc, and returns its report.
func Run(ctx context.Context, c unitree.Config) (Report, error) {
	program, err := unitree.FindProgram(c.Writer)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("unitree: %w", err)
	}
	cmd := exec.CommandContext(ctx, program, "check", "--json")
	cmd.Stdin = strings.NewReader(string(text))
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	var r Report
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return nil, fmt.Errorf("unitree: %s: %w: %s", program, err, strings.TrimSpace(string(exit.Stderr)))
		}
		return nil, fmt.Errorf("unitree: %s: %w", program, err)
	}
	return r, nil
}

// subnet is that of the robots.
var subnet = net.IPNet{IP: net.IPv4(192, 168, 123, 0), Mask: net.CIDRMask(24, 32)}

// CheckInterface adds the address of an interface. found is false if a robot cannot be behind it.
func (r Report) CheckInterface(name string) (report Report, found bool) {
	if name == unitree.Loopback {
		return r.OK("interface lo: a simulator, no robot"), true
	}
	i, err := net.InterfaceByName(name)
	if err != nil {
		return r.Bad("name the interface of the robot's cable, see `ip link`", "interface %s: %v", name, err), false
	}
	addresses, err := i.Addrs()
	if err != nil {
		return r.Bad("see `ip addr`", "interface %s: %v", name, err), false
	}
	if i.Flags&net.FlagRunning == 0 {
		return r.Bad("connect the robot's cable, and start the robot", "interface %s has no link", name), false
	}
	for _, a := range addresses {
		if ip, _, err := net.ParseCIDR(a.String()); err == nil && subnet.Contains(ip) {
			return r.OK("interface %s: %s", name, a), true
		}
	}
	fix := "sudo ip addr add 192.168.123.222/24 dev " + name
	return r.Bad(fix, "interface %s has no address in %s", name, &subnet), false
}
