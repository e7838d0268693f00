package rewardsrc

import (
	"strings"
	"testing"

	"optibfm/internal/errtest"
)

func TestCheckButtons_GoodIsAboveBad(t *testing.T) {
	errtest.Nil(t, CheckButtons("pedal", 1, -1))
	err := CheckButtons("pedal", 1, 1)
	if err == nil || !strings.Contains(err.Error(), "pedal: good_value is not above bad_value (1, 1); swap") {
		t.Errorf("error %v for equal values", err)
	}
}
