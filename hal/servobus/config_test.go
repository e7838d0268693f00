package servobus_test

import (
	"strings"
	"testing"
	"time"

	"optibfm/hal/servobus"
)

func TestCheckServos_RefusesInvalidLists(t *testing.T) {
	type servo struct {
		name string
		id   int
	}
	for name, c := range map[string]struct {
		servos []servo
		want   string
	}{
		"valid":     {[]servo{{"a", 0}, {"b", 9}}, ""},
		"none":      {nil, "not between 1 and 2"},
		"too many":  {[]servo{{"a", 1}, {"b", 2}, {"c", 3}}, "not between 1 and 2"},
		"no name":   {[]servo{{"", 1}}, "name: empty"},
		"same name": {[]servo{{"a", 1}, {"a", 2}}, "name: empty or given twice"},
		"same ID":   {[]servo{{"a", 1}, {"b", 1}}, "id: given twice"},
	} {
		err := servobus.CheckServos("toy", len(c.servos), 2, func(i int) (string, int) {
			return c.servos[i].name, c.servos[i].id
		})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTimeout_LeavesRoomForAnswers(t *testing.T) {
	for _, c := range []struct {
		ms   float64
		want time.Duration // 0: refused
	}{{0, 9 * time.Millisecond}, {20, 20 * time.Millisecond}, {5, 5 * time.Millisecond}, {4.9, 0}} {
		got, err := servobus.Timeout("toy", c.ms, 4*time.Millisecond, 9)
		if got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("timeout_ms %v: %v, %v", c.ms, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), "return delay") {
			t.Error(err)
		}
	}
}
