package rewardsrc

import "fmt"

// Event says what a Notice is about.
type Event uint8

// The events.
const (
	Wanted       Event = iota + 1 // a label is wanted; Notice.Request says for what
	Closed                        // the request was answered or expired
	Acknowledged                  // Notice.Label is safe on disk
	Refused                       // Notice.Label does not count
	Ignored                       // presses gave no labels
	Lost                          // the device is gone; nothing is asked until it is back
	Returned                      // the device is back
)

// Notice is something to show to the operator.
type Notice struct {
	Event   Event
	Request Request // of Wanted and Closed
	Label   Label   // of Acknowledged and Refused
	Text    string  // the same in words, one line
}

// String names the kind: a press of it is "label 6", "can't tell 6" or "undo 6".
func (k Kind) String() string {
	switch k {
	case Value:
		return "label"
	case CantTell:
		return "can't tell"
	case Undo:
		return "undo"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Describe says in words what a label says.
func (l Label) Describe() string {
	if l.Kind == CantTell || l.Kind == Undo {
		return l.Kind.String()
	}
	return fmt.Sprintf("label %+g", l.Value)
}
