package unitree

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"optibfm/hal"
	"optibfm/hal/unitree/idl"
)

// Buttons are those of the remote control, by the bits of its state.
type Buttons uint16

// buttonNames are the names of the bits.
var buttonNames = [...]string{
	"R1", "L1", "start", "select", "R2", "L2", "F1", "F2", "A", "B", "X", "Y", "up", "right", "down", "left",
}

// keysAt is where the buttons are in the state of the remote.
const keysAt = 2

// ParseButtons returns the buttons of a combination such as L2+B.
func ParseButtons(combination string) (b Buttons, err error) {
	for _, name := range strings.Split(combination, "+") {
		i := slices.Index(buttonNames[:], strings.TrimSpace(name))
		if i < 0 {
			return 0, fmt.Errorf("no button %q; use %s, joined by +", name, strings.Join(buttonNames[:], ", "))
		}
		b |= 1 << i
	}
	return b, nil
}

func mustButtons(combination string) Buttons {
	b, err := ParseButtons(combination)
	if err != nil {
		panic(err)
	}
	return b
}

// shoulders are the buttons that make another one part of a combination.
var shoulders = mustButtons("R1+L1+R2+L2")

func (r Remote) validate() error {
	errs := []error{}
	if len(r.Stop) == 0 && r.Use == Required {
		errs = append(errs, errors.New("unitree: remote.stop: empty; name a combination, such as L2+B"))
	}
	arm, err := parseOptional(r.Arm)
	if err != nil {
		errs = append(errs, fmt.Errorf("unitree: remote.arm: %w", err))
	}
	if arm != 0 && arm&shoulders == 0 {
		errs = append(errs, fmt.Errorf("unitree: remote.arm: %s has no shoulder button; labels have none, so that "+
			"no label arms the robot", r.Arm))
	}
	for _, s := range r.Stop {
		stop, err := ParseButtons(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("unitree: remote.stop: %w", err))
		} else if arm != 0 && arm&stop == stop {
			errs = append(errs, fmt.Errorf("unitree: remote.arm: %s includes the stop %s; choose other buttons", r.Arm, s))
		}
	}
	return errors.Join(errs...)
}

func parseOptional(combination string) (Buttons, error) {
	if combination == "" {
		return 0, nil
	}
	return ParseButtons(combination)
}

// labelButtons are the letters and bits of the buttons that reach the operator's device.
var labelButtons = [...]struct {
	letter uint64
	bit    Buttons
}{{'A', 1 << 8}, {'B', 1 << 9}, {'X', 1 << 10}, {'Y', 1 << 11}}

const (
	armAfter  = time.Second            // that the combination is held
	offAfter  = 500 * time.Millisecond // that the state of the remote is all zeros
	maxQueued = 16                     // presses that wait for the host
)

// remote watches the remote control. It allocates nothing.
type remote struct {
	required bool
	stops    []Buttons
	arm      Buttons

	known    bool
	off      bool
	zeroAt   int64 // since when the state is all zeros; 0: it is not
	pressed  Buttons
	armReady bool  // the combination was seen released since the start, the last arming and the last loss
	armSince int64 // since when the combination is held; 0: it is not
	armAsked bool
	queue    [maxQueued]hal.Press
	queued   int
}

func newRemote(c Remote) (*remote, error) {
	r := &remote{required: c.Use == Required, off: true}
	for _, s := range c.Stop {
		b, err := ParseButtons(s)
		if err != nil {
			return nil, err
		}
		r.stops = append(r.stops, b)
	}
	var err error
	r.arm, err = parseOptional(c.Arm)
	return r, err
}

// update takes the state of the remote at a moment. A remote that is off sends zeros, also where
// the first bytes of one that is on are not zero.
func (r *remote) update(state *[idl.RemoteSize]byte, at int64) {
	zero := true
	for _, b := range state {
		zero = zero && b == 0
	}
	if !zero {
		r.zeroAt, r.off = 0, false
	} else if r.zeroAt == 0 {
		r.zeroAt = at
	}
	r.off = r.off || zero && at-r.zeroAt >= int64(offAfter)
	now := Buttons(binary.LittleEndian.Uint16(state[keysAt:]))
	r.watchArm(now, at)
	if r.known { // a button held at the first state was not pressed now
		r.notePresses(now&^r.pressed, now, at)
	}
	r.pressed, r.known = now, true
}

// watchArm looks for a combination that is pressed, then held. A button that is stuck presses
// nothing.
func (r *remote) watchArm(now Buttons, at int64) {
	if now&r.arm != r.arm {
		r.armReady = true
	}
	switch {
	case r.arm == 0 || now != r.arm || !r.armReady:
		r.armSince = 0
	case r.armSince == 0:
		r.armSince = at
	case at-r.armSince >= int64(armAfter):
		r.armSince, r.armReady, r.armAsked = 0, false, true
	}
}

func (r *remote) notePresses(fresh, now Buttons, at int64) {
	if now&shoulders != 0 {
		return
	}
	for _, b := range labelButtons {
		if fresh&b.bit != 0 && r.queued < maxQueued {
			r.queue[r.queued] = hal.Press{At: at, Button: b.letter}
			r.queued++
		}
	}
}

// lost ends the hold of a combination to arm: the state is unknown. The loss of the states is
// another fault, so that the remote control does not count as off.
func (r *remote) lost() { r.armReady, r.armSince, r.armAsked, r.zeroAt = false, 0, false, 0 }

// stopped reports whether a combination to stop is held, or a required remote is off.
func (r *remote) stopped() bool {
	if r.required && (r.off || !r.known) {
		return true
	}
	for _, s := range r.stops {
		if r.pressed&s == s {
			return true
		}
	}
	return false
}

// takeArm reports once that the combination to arm was held for a second.
func (r *remote) takeArm() bool {
	asked := r.armAsked
	r.armAsked = false
	return asked
}

// take moves the queued presses to dst.
func (r *remote) take(dst []hal.Press) int {
	n := copy(dst, r.queue[:r.queued])
	copy(r.queue[:], r.queue[n:r.queued])
	r.queued -= n
	return n
}
