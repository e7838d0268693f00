package assembly

import (
	"slices"
	"testing"

	"optibfm/hal/composite"
	"optibfm/hal/haltest"
)

func TestRobot_PassesOnWhatItsDevicesDo(t *testing.T) {
	if missing, want := haltest.Missing(&Robot{}), haltest.Missing(&composite.Robot{}); !slices.Equal(missing, want) {
		t.Errorf("lacks %v, want %v", missing, want)
	}
}
