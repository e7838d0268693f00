package rewardsrc

import (
	"fmt"
	"testing"
)

func TestKind_String(t *testing.T) {
	for kind, want := range map[Kind]string{
		Value: "label 6", CantTell: "can't tell 6", Undo: "undo 6", 9: "Kind(9) 6",
	} {
		if got := fmt.Sprintf("%v %d", kind, 6); got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	}
}
