package fusedtest

import (
	"slices"
	"testing"
)

func TestFind_SeesOneFusedProduct(t *testing.T) {
	t.Parallel()
	if got, want := Find(t, "testdata/fused"), []Instruction{{"fused.go", "5"}}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}
