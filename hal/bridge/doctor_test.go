package bridge

import "testing"

func TestFiles_IgnoresScriptsOfOtherComputers(t *testing.T) {
	for _, command := range [][]string{
		{"ssh", "robot", "python3", "/home/pi/dmc_bridge.py"}, {"bash", "-c", "exec python3 dmc_bridge.py"},
	} {
		if files := (Config{Command: command}).Files(); files != nil {
			t.Errorf("%q: looks for %s here", command, files)
		}
	}
	if files := (Config{Command: []string{"python3", "scripts/dmc_bridge.py"}}).Files(); files["command"] == "" {
		t.Errorf("found %v", files)
	}
}
