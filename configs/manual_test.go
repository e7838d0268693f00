package configs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func TestParse_ReadsTheConfigurationsInTheManuals(t *testing.T) {
	for name, want := range map[string]int{
		"devices.md":   2, // evdev and gpio
		"protocols.md": 1, // a simulated operator
	} {
		manual, err := os.ReadFile("../docs/" + name)
		fatal.If(t, err)
		found := 0
		for _, block := range strings.Split(string(manual), "\n\n") {
			if !strings.HasPrefix(block, "    operator:\n") {
				continue
			}
			found++
			text := strings.ReplaceAll("\n"+block, "\n    ", "\n")
			errtest.Nil(t, errtest.Of(Parse(name, []byte("version: 1"+text))), text)
		}
		if found != want {
			t.Errorf("%s: %d configurations, want %d", name, found, want)
		}
	}
}

// section begins a configuration in a manual. The run of docs/protocols.md is a protocol's.
var section = regexp.MustCompile(`^    (robot|model|controller|loop|safety|operator|log):`)

func TestParse_KnowsTheKeysInTheManuals(t *testing.T) {
	manuals, err := filepath.Glob("../docs/*.md")
	fatal.If(t, err)
	found := 0
	for _, name := range manuals {
		manual, err := os.ReadFile(name)
		fatal.If(t, err)
		for _, block := range strings.Split(string(manual), "\n\n") {
			if !section.MatchString(block) {
				continue
			}
			found++
			text := strings.ReplaceAll("\n"+block, "\n    ", "\n")
			_, err := Parse(name, []byte("version: 1"+text))
			if err != nil && strings.Contains(err.Error(), "unknown key") { // a part lacks required keys
				t.Errorf("%v\n%s", err, text)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d configurations", found)
	}
}
