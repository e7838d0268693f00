package doctor

import (
	"context"

	"optibfm/hal/unitree/probe"
)

// checkUnitree reports what the program of the writers finds on the robot's network. It moves nothing.
func (d *doctor) checkUnitree(ctx context.Context) (list []finding) {
	report, err := probe.Run(ctx, d.file.Robot.Unitree)
	if err != nil {
		return []finding{fail("install optibfm-unitree beside optibfm (docs/unitree.md)", "%v", err)}
	}
	for _, f := range report {
		switch {
		case f.OK:
			list = append(list, pass("%s", f.Text))
		case f.Warn:
			list = append(list, warn(f.Fix, "%s", f.Text))
		default:
			list = append(list, fail(f.Fix, "%s", f.Text))
		}
	}
	return list
}
