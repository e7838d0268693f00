package flightlog

import (
	"fmt"

	"optibfm/controller"
	"optibfm/hal"
)

// motion checks that the commands on the way to a start or rest pose keep the rate limits of the
// channels.
type motion struct {
	channels []hal.Channel // none in logs without a description of the robot
	step     []float64     // largest change in a period; 0: no limit
	last     []float32     // the command of the tick before
	moving   bool          // last is valid
}

func newMotion(spec hal.Spec) *motion {
	m := &motion{channels: spec.Action, last: make([]float32, len(spec.Action))}
	for _, c := range spec.Action {
		m.step = append(m.step, c.MaxRate*spec.Period.Seconds())
	}
	return m
}

// check compares the commands of a tick with those of the tick before. A stop commands the failsafe
// output. After a bad observation the motion may begin again, at a measured position.
func (m *motion) check(t *controller.Tick, gap bool, c *comparison) {
	moves := t.ToPose() && !t.Flags.Has(controller.FlagStopped)
	for i := range m.channels {
		change := float64(t.Action[i]) - float64(m.last[i])
		// A command is rounded to float32.
		const rounding = 1e-5
		limit := m.step[i] + rounding*max(1, m.channels[i].Max-m.channels[i].Min)
		if moves && m.moving && !gap && m.step[i] > 0 && (change > limit || change < -limit) {
			c.note(fmt.Sprintf("change of %s", m.channels[i].Name),
				fmt.Sprintf("%.6g", change), fmt.Sprintf("at most %.6g", m.step[i]))
		}
	}
	m.moving = moves && !t.Flags.Has(controller.FlagBadObs)
	copy(m.last, t.Action)
}
