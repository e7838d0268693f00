package legged

import (
	"testing"

	"optibfm/internal/fusedtest"
)

func TestArithmetic_IsNotFusedOnArm64(t *testing.T) {
	t.Parallel()
	for _, found := range fusedtest.Find(t, ".") {
		t.Errorf("%s:%s fuses a product with an addition: wrap the product in float64()", found.File, found.Line)
	}
}
