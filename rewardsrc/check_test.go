package rewardsrc

import (
	"testing"

	"optibfm/internal/errtest"
)

func TestCheckButtons_GoodIsAboveBad(t *testing.T) {
	errtest.Nil(t, CheckButtons("pedal", 1, -1))
	err := CheckButtons("pedal", 1, 1)
	errtest.Contains(t, err, "pedal: good_value is not above bad_value (1, 1); swap")
}
