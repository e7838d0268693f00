package packaging_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/internal/fatal"
)

func TestImage_RefusesMistakesBeforeTheLongWork(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	private := filepath.Join(dir, "key")
	keygen := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", private)
	if out, err := keygen.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	key := []string{"--ssh-key", private + ".pub"}
	network := "network={\n  ssid=\"field\"\n  psk=\"12345678\"\n}\n"
	for name, c := range map[string]struct {
		args     []string
		wantText string
	}{
		"no key":      {nil, "--ssh-key: missing"},
		"no such key": {[]string{"--ssh-key", "none.pub"}, "no such file"},
		"private key": {[]string{"--ssh-key", private}, "not a public key"},
		"host name":   {append(key, "--hostname", "my_robot"), "invalid name (my_robot)"},
		"Wi-Fi open":  {append(key, "--wifi", file("open", strings.TrimSuffix(network, "}\n"))), "no complete network"},
		"Wi-Fi without key": {
			append(key, "--wifi", file("bare", network+"network={\n  ssid=\"x\"\n}\n")), "no complete network",
		},
		"configuration": {append(key, "--config", file("config", "nonsense: 1\n")), "unknown key nonsense"},
		"moves at boot": {append(key, "--config", "robot.yaml"), "set safety.arm to operator"},
		"output":        {append(key, "--wifi", file("wifi", network)), "exists"},
	} {
		args := append(append([]string{"arm64"}, c.args...), file("robot.img", ""))
		out, err := exec.Command("../scripts/image.sh", args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.wantText) {
			t.Errorf("%s: %v, want %q:\n%s", name, err, c.wantText, out)
		}
	}
}

func TestScripts_HelpIsNoMistake(t *testing.T) {
	for _, script := range []string{
		"attack.sh", "flash.sh", "image.sh", "package.sh", "gpu_check.sh", "install-tensorflow.sh",
		"vm/image.sh", "vm/robot.sh", "vm/run.sh", "vm/systemd.sh",
	} {
		out, err := exec.Command("../scripts/"+script, "--help").Output()
		if err != nil || len(out) == 0 {
			t.Errorf("%s --help: %v, standard output %q", script, err, out)
		}
	}
}
