package panel

import (
	"fmt"

	"optibfm/rewardsrc"
)

// Role is the meaning of a button.
type Role uint8

// The roles.
const (
	Good Role = iota
	Bad
	Better
	Worse
	Goal
	CantTell
	Undo
	NumRoles = iota
)

var roleNames = [NumRoles]string{"good", "bad", "better", "worse", "goal", "cant_tell", "undo"}

// Roles lists the roles.
func Roles() []Role { return []Role{Good, Bad, Better, Worse, Goal, CantTell, Undo} }

// String is the role's key in a configuration.
func (r Role) String() string {
	if int(r) < len(roleNames) {
		return roleNames[r]
	}
	return fmt.Sprintf("Role(%d)", uint8(r))
}

// deflection is the axis position that is equivalent to a held button, 0 for a
// button that cannot be held.
func (r Role) deflection() float64 {
	switch r {
	case Good:
		return 1
	case Bad:
		return -1
	}
	return 0
}

// input returns the meaning of a press, without its time.
func (r Role) input(c *Config) rewardsrc.Input {
	switch r {
	case Better:
		return rewardsrc.Better(c.GoodValue, c.BadValue)
	case Worse:
		return rewardsrc.Worse(c.GoodValue, c.BadValue)
	case Goal:
		return rewardsrc.AtGoal(c.GoodValue, c.BadValue)
	case CantTell:
		return rewardsrc.Input{Kind: rewardsrc.CantTell}
	case Undo:
		return rewardsrc.Input{Kind: rewardsrc.Undo}
	}
	return rewardsrc.Input{Kind: rewardsrc.Value, Value: c.value(r.deflection())}
}
