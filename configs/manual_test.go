package configs

import (
	"os"
	"strings"
	"testing"
)

func TestParse_ReadsTheConfigurationsInTheManuals(t *testing.T) {
	for name, want := range map[string]int{
		"devices.md":   2, // evdev and gpio
		"protocols.md": 1, // a simulated operator
	} {
		manual, err := os.ReadFile("../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, block := range strings.Split(string(manual), "\n\n") {
			if !strings.HasPrefix(block, "    operator:\n") {
				continue
			}
			found++
			text := strings.ReplaceAll("\n"+block, "\n    ", "\n")
			if _, err := Parse(name, []byte("version: 1"+text)); err != nil {
				t.Errorf("%v\n%s", err, text)
			}
		}
		if found != want {
			t.Errorf("%s: %d configurations, want %d", name, found, want)
		}
	}
}
