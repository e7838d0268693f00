package controller

import (
	"slices"
	"testing"

	"optibfm/internal/fusedtest"
)

// exactFiles have what happens to a label on its way to the belief, and to the estimate of its
// moment.
var exactFiles = []string{
	"learner.go", "ledger.go", "history.go", "noise.go", "settle.go", "former.go", "reaction.go",
}

// The same labels must give the same belief on every CPU: see the test of the same name in
// posterior.
func TestArithmetic_IsNotFusedOnArm64(t *testing.T) {
	t.Parallel()
	for _, found := range fusedtest.Find(t, ".") {
		if slices.Contains(exactFiles, found.File) {
			t.Errorf("%s:%s fuses a product with an addition: wrap the product in float64()", found.File, found.Line)
		}
	}
}
