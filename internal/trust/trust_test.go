package trust

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"optibfm/internal/authority"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	_ "optibfm/standard"
)

func TestRun_ShowsRenewsAndRevokes(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	file := filepath.Join(state, "authority.pem")
	run := func(o Options) (string, error) {
		var out bytes.Buffer
		o.Config, o.Set = "rover-keyboard", []string{"run.state_dir=" + state, `operator.web.hosts=["robot.example:443"]`}
		err := Run(&out, o)
		return out.String(), err
	}
	errtest.Contains(t, errtest.Of(run(Options{})),
		"console certificate --renew --config rover-keyboard --set run.state_dir="+state, "without an authority")
	made, err := run(Options{Renew: true})
	fatal.If(t, err)
	first, err := authority.Load(file)
	fatal.If(t, err)
	sha := authority.Fingerprint(first.Root().Raw)
	shown, err := run(Options{})
	for _, want := range []string{sha, "robot.example, ", "192.168.0.0/16", file} {
		if err != nil || !strings.Contains(shown, want) || !strings.Contains(made, want) {
			t.Errorf("no %s: %v\n%s\n%s", want, err, made, shown)
		}
	}
	text, err := run(Options{PEM: true})
	block, rest := pem.Decode([]byte(text))
	if err != nil || block == nil || len(rest) > 0 {
		t.Fatalf("%v: %s", err, text)
	}
	if root, err := x509.ParseCertificate(block.Bytes); err != nil || !root.Equal(first.Root()) {
		t.Error(err)
	}
	if renewed, err := run(Options{Renew: true}); err != nil || !strings.Contains(renewed, "Remove the old") ||
		!strings.Contains(renewed, sha) {
		t.Errorf("%v: %s", err, renewed)
	}
	fatal.If(t, os.WriteFile(file, []byte("damaged"), 0o600))
	errtest.Contains(t, errtest.Of(run(Options{})), "makes a new one", "damaged")
	if revoked, err := run(Options{Revoke: true}); err != nil || !strings.Contains(revoked, "Removed the authority") {
		t.Errorf("%v: %s", err, revoked)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the key remains: %v", err)
	}
}

func TestRun_WritesNoFileThatTheHostCannotRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives folders away")
	}
	state := t.TempDir()
	fatal.If(t, os.Chown(state, 65534, -1))
	err := Run(new(bytes.Buffer), Options{Config: "rover-keyboard", Set: []string{"run.state_dir=" + state}, Renew: true})
	errtest.Contains(t, err, "sudo -u ")
}
