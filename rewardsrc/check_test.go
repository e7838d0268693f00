package rewardsrc

import (
	"math"
	"strings"
	"testing"
)

func TestCheckButtons_NamesEachBadKey(t *testing.T) {
	if err := CheckButtons("pedal", 1, -1, 250, 150); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	err := CheckButtons("pedal", -1001, math.NaN(), -1, 2001)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, key := range []string{"good_value", "bad_value", "refractory_ms", "reaction_ms"} {
		if !strings.Contains(err.Error(), "pedal: "+key+" is out of range") {
			t.Errorf("%s is missing in:\n%v", key, err)
		}
	}
	err = CheckButtons("pedal", 1, 1, 0, 0)
	if err == nil || !strings.Contains(err.Error(), "good_value is not above bad_value") {
		t.Errorf("good and bad are the same: %v", err)
	}
}
