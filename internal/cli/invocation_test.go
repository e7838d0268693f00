package cli

import (
	"os"
	"path/filepath"
	"testing"

	"optibfm/configs"
	"optibfm/internal/fatal"
	"optibfm/rewardsrc/web"
)

// walkerByWeb is a walker in real time with labels from a browser.
var walkerByWeb = runFlags{config: "walker", operator: "web", set: []string{"run.lockstep=false", "run.episode_s=0"}}

func TestInvocation_SuggestsOnlyRunsThatRunAccepts(t *testing.T) {
	for name, c := range map[string]struct {
		flags          runFlags
		keyboard, task string
	}{
		"rover": {
			runFlags{config: configs.DefaultName(), plain: true},
			"o run --operator keyboard", "o run --task corner",
		},
		"fast":     {runFlags{config: configs.DefaultName(), fast: true}, "", "o run --task corner --fast"},
		"lockstep": {runFlags{config: "walker"}, "", "o run --config walker --task walk"},
		"web, in real time": {
			walkerByWeb,
			"o run --config walker --operator keyboard --set run.lockstep=false --set run.episode_s=0",
			"o run --config walker --task walk --operator web --set run.lockstep=false --set run.episode_s=0",
		},
		"keyboard": {
			runFlags{config: "rover-keyboard"},
			"", "o run --config rover-keyboard --task far_corner",
		},
		"overrides": {
			runFlags{config: configs.DefaultName(), set: []string{"operator.source=none", "model.bundle=it's"}},
			`o run --operator keyboard --set 'model.bundle=it'\''s'`,
			`o run --task corner --set operator.source=none --set 'model.bundle=it'\''s'`,
		},
		"on the network": {
			runFlags{config: configs.DefaultName(), operator: "web", lan: true},
			"o run --operator keyboard", "o run --task corner --operator web --lan",
		},
		"another task given": {
			runFlags{config: configs.DefaultName(), task: "corner", seed: 7, seedGiven: true},
			"o run --task corner --operator keyboard --seed 7", "o run --task far_corner --seed 7",
		},
	} {
		file, err := c.flags.load()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		i := invocation("o", c.flags, file)
		for _, s := range []struct {
			args []string
			want string
		}{{i.Keyboard, c.keyboard}, {i.Task, c.task}} {
			got := ""
			if s.args != nil {
				got = i.Command(s.args...)
			}
			if got != s.want {
				t.Errorf("%s: suggests %q, want %q", name, got, s.want)
			}
		}
	}
}

func TestInvocation_OperatesTheSocketOfTheRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.yaml")
	text := "version: 1\nsafety: {arm: operator, socket: /tmp/mine.sock}\n"
	fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
	for name, c := range map[string]struct {
		flags runFlags
		want  string
	}{
		"default socket": {runFlags{config: "robot"}, "o arm"},
		"of the file":    {runFlags{config: path}, "o arm -c " + path},
		"overridden": {
			runFlags{config: path, set: []string{"safety.socket=/tmp/other socket"}},
			"o arm --socket '/tmp/other socket'",
		},
	} {
		file, err := c.flags.load()
		fatal.If(t, err)
		if got := invocation("o", c.flags, file).OperatorCommand("arm"); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestRunFlags_LANOpensTheConsoleWithTLS(t *testing.T) {
	for name, c := range map[string]struct {
		config, set string
		listen      string // "": refused
	}{
		"default":        {"walker-human", "", "0.0.0.0:8642"},
		"another port":   {"walker-human", "operator.web.listen=localhost:99", "0.0.0.0:99"},
		"one network":    {"walker-human", "operator.web.listen=192.0.2.7:99", "192.0.2.7:99"},
		"not encrypted":  {"walker-human", "operator.web.tls=off", "0.0.0.0:8642"},
		"it only shows":  {"rover", "operator.web.watch_only=true", "0.0.0.0:8642"},
		"has no console": {"rover", "", ""},
	} {
		flags := runFlags{config: c.config, lan: true}
		if c.set != "" {
			flags.set = []string{c.set}
		}
		file, err := flags.load()
		if w := file.Operator.Web; c.listen == "" && err == nil ||
			c.listen != "" && (err != nil || w.Listen != c.listen || w.TLS != web.TLSAuto || len(w.Hosts) == 0) {
			t.Errorf("%s: listen %q, tls %q, hosts %q, %v", name, w.Listen, w.TLS, w.Hosts, err)
		}
	}
}
