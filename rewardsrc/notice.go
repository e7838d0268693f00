package rewardsrc

import "fmt"

// Event is the subject of a Notice.
type Event uint8

// The events.
const (
	Wanted       Event = iota + 1 // a label is wanted, for Notice.Request
	Closed                        // the request was answered or expired
	Acknowledged                  // Notice.Label is safe on disk
	Refused                       // Notice.Label does not count
	Ignored                       // presses gave no labels
	Lost                          // the device is missing; the robot asks nothing until it is back
	Returned                      // the device is back
)

// Notice is something to show to the operator.
type Notice struct {
	Event   Event
	Request Request // of Wanted and Closed
	Label   Label   // of Acknowledged and Refused
	Text    string  // the same in words, one line
}

// RequestNotice describes a request. prompt is the text of an open one.
func RequestNotice(r Request, prompt string) Notice {
	switch r.State {
	case Open:
		return Notice{Event: Wanted, Request: r, Text: "label wanted: " + prompt}
	case Answered:
		return Notice{Event: Closed, Request: r, Text: "request answered"}
	}
	return Notice{Event: Closed, Request: r, Text: "no label wanted any more"}
}

// SavedNotice describes an acknowledged label.
func SavedNotice(l Label) Notice {
	return Notice{Event: Acknowledged, Label: l, Text: fmt.Sprintf("%s saved (%d)", l.Describe(), l.ID)}
}

// RefusedNotice describes a label that does not count.
func RefusedNotice(l Label, reason error) Notice {
	return Notice{Event: Refused, Label: l, Text: fmt.Sprintf("%s does NOT count: %v", l.Describe(), reason)}
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
	case Comparison:
		return "comparison"
	case Goal:
		return "goal"
	case Keep:
		return "keep the task"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Describe returns a label in words: "label 1", "better", "worse", "goal", "can't tell", "undo" or
// "keep the task".
func (l Label) Describe() string {
	switch {
	case l.Kind == Value:
		return fmt.Sprintf("label %g", l.Value)
	case l.Kind == Comparison && l.Value >= 0:
		return "better"
	case l.Kind == Comparison:
		return "worse"
	}
	return l.Kind.String()
}
