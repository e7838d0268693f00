package shadow

import (
	"io"
	"math"

	"optibfm/hal"
)

// Robot is a robot without actuators. It never implements hal.Resetter, even if
// the wrapped robot does.
type Robot struct {
	body  hal.Robot
	armed bool
	// The optional interfaces of the body, nil if absent. Asserted once, because
	// a type assertion to an interface can allocate.
	backstop hal.Backstop
	stop     hal.StopInput
	rewarder hal.Rewarder
	armer    hal.ArmInput
	labels   hal.LabelInput
}

var (
	_ hal.Robot      = (*Robot)(nil)
	_ hal.Rewarder   = (*Robot)(nil)
	_ hal.Backstop   = (*Robot)(nil)
	_ hal.Bounder    = (*Robot)(nil)
	_ hal.Meter      = (*Robot)(nil)
	_ hal.StopInput  = (*Robot)(nil)
	_ hal.ArmInput   = (*Robot)(nil)
	_ hal.LabelInput = (*Robot)(nil)
	_ hal.Viewer     = (*Robot)(nil)
	_ hal.Warner     = (*Robot)(nil)
	_ io.Closer      = (*Robot)(nil)
)

// Wrap returns a read-only view of a halted robot. Close closes the robot.
func Wrap(body hal.Robot) *Robot {
	r := &Robot{body: body}
	r.backstop, _ = body.(hal.Backstop)
	r.stop, _ = body.(hal.StopInput)
	r.rewarder, _ = body.(hal.Rewarder)
	r.armer, _ = body.(hal.ArmInput)
	r.labels, _ = body.(hal.LabelInput)
	return r
}

// Spec implements hal.Robot.
func (r *Robot) Spec() hal.Spec { return r.body.Spec() }

// Sense implements hal.Robot by the wrapped robot.
func (r *Robot) Sense(obs []float32) (at int64, err error) { return r.body.Sense(obs) }

// Act implements hal.Robot. It discards the action.
func (r *Robot) Act([]float32) error {
	if !r.armed {
		return hal.ErrHalted
	}
	return nil
}

// Warning implements hal.Warner by the wrapped robot.
func (r *Robot) Warning() error {
	if w, ok := r.body.(hal.Warner); ok {
		return w.Warning()
	}
	return nil
}

// View implements hal.Viewer by the wrapped robot.
func (r *Robot) View() string {
	if v, ok := r.body.(hal.Viewer); ok {
		return v.View()
	}
	return ""
}

// Arm implements hal.Robot. The wrapped robot stays halted.
func (r *Robot) Arm() error {
	r.armed = true
	return nil
}

// Halt implements hal.Robot, and also halts the wrapped robot.
func (r *Robot) Halt() error {
	r.armed = false
	return r.body.Halt()
}

// HaltBeside implements hal.Backstop if the wrapped robot does.
func (r *Robot) HaltBeside() {
	if r.backstop != nil {
		r.backstop.HaltBeside()
	}
}

// Positions implements hal.Meter: all positions are unknown, since the actuators do not follow the
// commands.
func (r *Robot) Positions(dst []float32) {
	for i := range dst {
		dst[i] = float32(math.NaN())
	}
}

// StopPressed implements hal.StopInput if the wrapped robot does.
func (r *Robot) StopPressed() bool {
	return r.stop != nil && r.stop.StopPressed()
}

// ArmRequested implements hal.ArmInput if the wrapped robot does. It arms the shadow only.
func (r *Robot) ArmRequested() bool { return r.armer != nil && r.armer.ArmRequested() }

// Presses implements hal.LabelInput if the wrapped robot does.
func (r *Robot) Presses(dst []hal.Press) int {
	if r.labels == nil {
		return 0
	}
	return r.labels.Presses(dst)
}

// Bounds implements hal.Bounder by the wrapped robot. Act and Arm take no time.
func (r *Robot) Bounds() hal.Bounds {
	b := hal.BoundsOf(r.body)
	b.Act, b.Arm = 0, 0
	return b
}

// Reward implements hal.Rewarder if the wrapped robot does.
func (r *Robot) Reward() (reward float64, ok bool) {
	if r.rewarder == nil {
		return 0, false
	}
	return r.rewarder.Reward()
}

// Close releases the wrapped robot. It does not halt it.
func (r *Robot) Close() error {
	if c, ok := r.body.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
