package eval

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/internal/fatal"
	"optibfm/tflite"
	"optibfm/tflite/tflitetest"
)

func TestRunner_GivesTheSameRowsWithTwoBridges(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts three interpreters")
	}
	if err := exec.Command("python3", "-c", "import dm_control").Run(); err != nil {
		t.Skip("dm_control is not installed: no robot of dm_control is tested")
	}
	dir := t.TempDir()
	bundle := filepath.Join(dir, "model")
	m := tflitetest.Manifest(tflite.Dims{Obs: 17, Action: 6, Latent: 8, Ensemble: 2})
	fatal.If(t, tflite.Save(bundle, m, tflitetest.Tensors(m.Architecture, 1)))
	p := parsed(t, strings.ReplaceAll(`
version: 1
experiment: cheetah
run: {trials: 2, episodes: 2, episode_steps: 20}
environments: [{name: cheetah, tasks: [run], models: [{bundle: BUNDLE}]}]
methods: [{name: ucb, candidates: [8]}, {name: random}]
`, "BUNDLE", bundle))
	worlds := Worlds{Bridge: "../../scripts/dmc_bridge.py", Output: t.Output()}
	one, two := filepath.Join(dir, "one.csv"), filepath.Join(dir, "two.csv")
	runInto(t, one, Runner{Protocol: p, Worlds: worlds, Jobs: 1})
	runInto(t, two, Runner{Protocol: p, Worlds: worlds, Jobs: 2})
	if a, b := content(t, one), content(t, two); a != b {
		t.Errorf("in one process:\n%s\nin two:\n%s", a, b)
	}
}
