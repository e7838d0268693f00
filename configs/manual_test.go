package configs

import (
	"os"
	"strings"
	"testing"
)

func TestParse_ReadsTheConfigurationsInTheLabelManual(t *testing.T) {
	manual, err := os.ReadFile("../docs/labels.md")
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
		if _, err := Parse("labels.md", []byte("version: 1"+text)); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
	if found != 2 {
		t.Errorf("%d configurations, want those of evdev and gpio", found)
	}
}
