package rewardsrc

import (
	"fmt"
	"testing"
)

func TestKind_String(t *testing.T) {
	for kind, want := range map[Kind]string{
		Value: "label 6", CantTell: "can't tell 6", Undo: "undo 6",
		Comparison: "comparison 6", Goal: "goal 6", 9: "Kind(9) 6",
	} {
		if got := fmt.Sprintf("%v %d", kind, 6); got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
}

func TestLabel_DescribeNamesKind(t *testing.T) {
	for want, l := range map[string]Label{
		"label 0.5": {Kind: Value, Value: 0.5}, "undo": {Kind: Undo}, "can't tell": {Kind: CantTell},
		"better": {Kind: Comparison, Value: 0.5}, "worse": {Kind: Comparison, Value: -0.5},
		"goal": {Kind: Goal, Value: 1},
	} {
		if got := l.Describe(); got != want {
			t.Errorf("%+v is %q, want %q", l, got, want)
		}
	}
}
