package probe

import (
	"context"

	"optibfm/hal"
	"optibfm/hal/unitree"
	"optibfm/internal/registry"
)

// Register registers the driver unitree.
func Register() {
	registry.AddRobot("unitree", "Unitree is a Go2 or a G1 on a network interface of this computer.",
		unitree.DefaultConfig(),
		func(ctx context.Context, c unitree.Config, o registry.Opening) (hal.Robot, error) {
			return unitree.Open(ctx, c, o.Period)
		})
	registry.AddCheck("unitree", check)
}

// check returns the findings of optibfm-unitree about the network. The robot does not move.
func check(ctx context.Context, c unitree.Config, _ registry.Computer) (list []registry.Finding) {
	report, err := Run(ctx, c)
	if err != nil {
		return []registry.Finding{{Status: registry.StatusFail, Found: err.Error(), Fix: "see docs/unitree.md"}}
	}
	for _, f := range report {
		status := registry.StatusFail
		switch {
		case f.OK:
			status = registry.StatusOK
		case f.Warn:
			status = registry.StatusWarn
		}
		list = append(list, registry.Finding{Status: status, Found: f.Text, Fix: f.Fix})
	}
	return list
}
