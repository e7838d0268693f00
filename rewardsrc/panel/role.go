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
	CantTell
	Undo
	NumRoles = iota
)

var roleNames = [NumRoles]string{"good", "bad", "cant_tell", "undo"}

// Roles lists the roles.
func Roles() []Role { return []Role{Good, Bad, CantTell, Undo} }

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

func (r Role) kind() rewardsrc.Kind {
	switch r {
	case CantTell:
		return rewardsrc.CantTell
	case Undo:
		return rewardsrc.Undo
	}
	return rewardsrc.Value
}
