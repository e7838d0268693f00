package decimal

import (
	"testing"

	"optibfm/internal/errtest"
)

func TestCheck_RefusesLeadingZeros(t *testing.T) {
	for _, text := range []string{"010", "08", "00", "-010", "+01", "010.5", "00.5", "01e3", "0_1", " 012 "} {
		if Check(text) == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	for _, text := range []string{"0", "-0", "0.5", "-0.05", "0e3", "10", "100", "0x40", "0o10", "0b1", "", "+", "a01",
		"1.01"} {
		errtest.Nil(t, Check(text), text)
	}
}
