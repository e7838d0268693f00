package packaging_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"optibfm/configs"
	"optibfm/hal/bridge"
	"optibfm/internal/fatal"
	"optibfm/rtloop"
	_ "optibfm/standard"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	fatal.If(t, err)
	return string(text)
}

func TestPackage_InstalledConfigurationIsASimulator(t *testing.T) {
	file, err := configs.Load("robot.yaml")
	fatal.If(t, err)
	if file.Robot.Driver != "rover" || file.Loop.Posture != rtloop.Strict || file.Log.MinFreeGB <= 0 {
		t.Errorf("driver %s, posture %s, %g GB free", file.Robot.Driver, file.Loop.Posture, file.Log.MinFreeGB)
	}
	folders := read(t, "tmpfiles.conf")
	for _, dir := range []string{file.Log.Dir, file.Run.StateDir} {
		if !regexp.MustCompile(`(?m)^d ` + dir + ` +\d+ optibfm-host optibfm$`).MatchString(folders) {
			t.Errorf("%s is not created for the host process:\n%s", dir, folders)
		}
	}
}

func TestService_HostHasAnotherUserWithoutTheBusesOfTheRobot(t *testing.T) {
	file, err := configs.Load("robot.yaml")
	fatal.If(t, err)
	user := file.Run.HostUser
	if start := unit(t, "ExecStart"); len(start) != 1 || !strings.HasSuffix(start[0], " --set run.host_user="+user) {
		t.Errorf("the service runs %q", start)
	}
	users := read(t, "sysusers.conf")
	if user == "" || user == unit(t, "User")[0] || !strings.Contains(users, "\nu "+user+" ") {
		t.Errorf("the host's user is %q:\n%s", user, users)
	}
	for _, group := range []string{"dialout", "i2c", "optibfm"} {
		if strings.Contains(users, "m "+user+" "+group+"\n") {
			t.Errorf("the host's user is a member of %s", group)
		}
	}
	for _, filter := range unit(t, "SystemCallFilter") {
		if strings.HasPrefix(filter, "~") && strings.Contains(filter, "@setuid") {
			t.Errorf("the service cannot change users: %s", filter)
		}
	}
	for _, key := range []string{"StateDirectory", "LogsDirectory"} {
		if found := unit(t, key); len(found) > 0 {
			t.Errorf("%s=%s gives the host's folder to the control process", key, found[0])
		}
	}
}

// unit returns the values of a key of the service.
func unit(t *testing.T, key string) (values []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^`+key+`=(.*)$`).FindAllStringSubmatch(read(t, "optibfm.service"), -1) {
		values = append(values, m[1])
	}
	return values
}

func TestService_StopsInOrderAndWatchdogIsLast(t *testing.T) {
	for key, want := range map[string]string{
		"Type": "notify", "NotifyAccess": "main", "KillMode": "mixed", "Restart": "on-failure",
		"LimitMEMLOCK": "infinity", "NoNewPrivileges": "yes", "User": "optibfm",
		"CapabilityBoundingSet": "CAP_SETUID CAP_SETGID CAP_SETPCAP",
		"AmbientCapabilities":   "CAP_SETUID CAP_SETGID CAP_SETPCAP",
		"WatchdogSec":           "2", "TimeoutAbortSec": "5",
	} {
		if got := unit(t, key); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	file, err := configs.Load("robot.yaml")
	fatal.If(t, err)
	if file.Loop.WatchdogMS <= 0 || file.Loop.WatchdogMS >= 2000/2 {
		t.Errorf("loop.watchdog_ms is %g, want it to expire before WatchdogSec", file.Loop.WatchdogMS)
	}
}

func TestPackage_SudoHasTheLimitsOfTheService(t *testing.T) {
	limits := read(t, "limits.conf")
	for name, key := range map[string]string{"rtprio": "LimitRTPRIO", "memlock": "LimitMEMLOCK"} {
		value := strings.Replace(strings.Join(unit(t, key), ""), "infinity", "unlimited", 1)
		if want := "\noptibfm - " + name + " " + value + "\n"; !strings.Contains(limits, want) {
			t.Errorf("%q, want %q", limits, want)
		}
	}
	if packageFiles(t)["/etc/security/limits.d/optibfm.conf"] != "limits.conf" {
		t.Error("the package lacks limits.conf")
	}
}

func TestService_SeesTheAncestorsOfCallers(t *testing.T) {
	for _, key := range []string{"ProtectProc", "ProcSubset"} {
		if found := unit(t, key); len(found) > 0 {
			t.Errorf("%s=%s: the control socket refuses callers whose /proc entries it cannot read", key, found[0])
		}
	}
}

func TestService_StartsWithoutANetwork(t *testing.T) {
	for _, key := range []string{"After", "Wants", "Requires", "BindsTo"} {
		for _, value := range unit(t, key) {
			if strings.Contains(value, "network-online") {
				t.Errorf("%s=%s: the robot starts without a network; its console waits for one", key, value)
			}
		}
	}
}

func TestService_HasTheGroupsOfItsDevices(t *testing.T) {
	users, rules := read(t, "sysusers.conf"), read(t, "udev.rules")
	for _, group := range strings.Fields(strings.Join(unit(t, "SupplementaryGroups"), " ")) {
		if !strings.Contains(users, "m optibfm "+group+"\n") {
			t.Errorf("the user is not a member of %s", group)
		}
	}
	for _, m := range regexp.MustCompile(`GROUP="(\w+)"`).FindAllStringSubmatch(rules, -1) {
		if !strings.Contains(users, "m optibfm "+m[1]+"\n") {
			t.Errorf("devices belong to %s, but the user does not", m[1])
		}
	}
	if families := unit(t, "RestrictAddressFamilies"); len(families) != 1 || !strings.Contains(families[0], "AF_CAN") {
		t.Errorf("address families: %q", families)
	}
}

func TestService_HaltsTheRobotAfterAKill(t *testing.T) {
	post, start := unit(t, "ExecStopPost"), unit(t, "ExecStart")
	if len(post) != 1 || !strings.HasPrefix(post[0], "/usr/bin/optibfm halt --if-failed --config ") {
		t.Fatalf("ExecStopPost: found %q", post)
	}
	_, config, _ := strings.Cut(post[0], "--config ")
	if !strings.Contains(start[0], "--config "+config) {
		t.Errorf("halts the robot of %s, but the service runs %q", config, start)
	}
}

func TestGPUDropIn_UsesPatternsOnlyInDeviceNames(t *testing.T) {
	text := read(t, "gpu.conf")
	allowed := regexp.MustCompile(`(?m)^DeviceAllow=(\S+) rw$`).FindAllStringSubmatch(text, -1)
	if len(allowed) != strings.Count(text, "DeviceAllow=") || len(allowed) < 5 {
		t.Errorf("found %q", allowed)
	}
	for _, m := range allowed {
		if strings.HasPrefix(m[1], "/dev/") && strings.ContainsAny(m[1], "*?[") {
			t.Errorf("%s: systemd does not expand paths; use char- and a name of /proc/devices", m[1])
		}
	}
	codeAllowed := strings.Contains(text, "\nMemoryDenyWriteExecute=no\n")
	if !codeAllowed || !strings.Contains(read(t, "nfpm.yaml"), "src: gpu.conf") {
		t.Error("TensorFlow cannot create code, or the package lacks gpu.conf")
	}
}

// packageFiles maps the files of the package to their sources.
func packageFiles(t *testing.T) map[string]string {
	t.Helper()
	var description struct {
		Contents []struct {
			Src string `yaml:"src"`
			Dst string `yaml:"dst"`
		} `yaml:"contents"`
	}
	fatal.If(t, yaml.Unmarshal([]byte(read(t, "nfpm.yaml")), &description))
	files := map[string]string{}
	for _, c := range description.Contents {
		if !strings.Contains(c.Src, "*") {
			files[c.Dst] = c.Src
			continue
		}
		matches, err := filepath.Glob(c.Src)
		if err != nil || len(matches) == 0 {
			t.Errorf("%s matches nothing: %v", c.Src, err)
		}
		for _, m := range matches {
			files[path.Join(c.Dst, filepath.Base(m))] = m
		}
	}
	return files
}

func TestPackage_HasTheBridgesAndTheirImports(t *testing.T) {
	files := packageFiles(t)
	const folder = "/usr/share/optibfm/bridges/"
	others := []string{"optibfm_bridge/__init__.py", "requirements-simulators.txt"}
	for _, script := range slices.Concat(bridge.Scripts, others) {
		if source := files[folder+script]; source != "../scripts/"+script {
			t.Errorf("%s%s: found %q", folder, script, source)
		}
	}
	local, err := filepath.Glob("../scripts/*.py") // optibfm_bridge is checked above
	if err != nil || len(local) == 0 {
		t.Fatal(local, err)
	}
	for dst, source := range files {
		if !strings.HasPrefix(dst, folder) || !strings.HasSuffix(dst, ".py") {
			continue
		}
		text := read(t, source)
		for _, other := range local {
			module := strings.TrimSuffix(filepath.Base(other), ".py")
			imports := regexp.MustCompile(`(?m)^\s*(import|from) ` + module + `\b`).MatchString(text)
			if _, packed := files[folder+module+".py"]; imports && !packed {
				t.Errorf("%s imports %s, which the package lacks", dst, module)
			}
		}
	}
}

func TestPackage_HasTheModelOfTheGo2(t *testing.T) {
	files := packageFiles(t)
	for _, name := range []string{"bfm.json", "model.safetensors", "prior.safetensors"} {
		if source := files["/usr/share/optibfm/models/go2/"+name]; source != "../models/go2/"+name {
			t.Errorf("%s: found %q", name, source)
		}
	}
}

// TestPackage_HasTheFilesThatItsManualsLink relies on the folders of the repository:
// TestManuals_LinkedFilesAndHeadingsExist checks headings.
func TestPackage_HasTheFilesThatItsManualsLink(t *testing.T) {
	const manuals = "/usr/share/doc/optibfm/"
	files := packageFiles(t)
	packed := map[string]bool{} // files and folders
	for dst, source := range files {
		for rel, ok := strings.CutPrefix(dst, manuals); ok && rel != "."; rel = path.Dir(rel) {
			packed[rel] = true
		}
		if rel, ok := strings.CutPrefix(dst, manuals); ok && source != "../"+rel {
			t.Errorf("%s is %s, want the folders of the repository", dst, source)
		}
	}
	links := 0
	for dst, source := range files {
		if !strings.HasPrefix(dst, manuals) || path.Ext(dst) != ".md" {
			continue
		}
		from := path.Dir(strings.TrimPrefix(dst, manuals))
		for _, m := range regexp.MustCompile(`\]\(([^)\s#]+)`).FindAllStringSubmatch(read(t, source), -1) {
			if links++; !strings.Contains(m[1], "://") && !packed[path.Join(from, m[1])] {
				t.Errorf("%s links %s, which the package lacks: pack it, or name it in the text", dst, m[1])
			}
		}
	}
	if links < 100 {
		t.Errorf("%d links", links)
	}
}

func TestPackage_HasManualsAndCompletion(t *testing.T) {
	files := packageFiles(t)
	for dst, source := range map[string]string{
		"/usr/share/doc/optibfm/docs/hardware.md":           "../docs/hardware.md",
		"/usr/share/doc/optibfm/docs/install.md":            "../docs/install.md",
		"/usr/share/doc/optibfm/hal/bridge/PROTOCOL.md":     "../hal/bridge/PROTOCOL.md",
		"/usr/share/bash-completion/completions/optibfm":    "${DIST}/completion/bash",
		"/usr/share/zsh/vendor-completions/_optibfm":        "${DIST}/completion/zsh",
		"/usr/share/fish/vendor_completions.d/optibfm.fish": "${DIST}/completion/fish",
	} {
		if files[dst] != source {
			t.Errorf("%s: found %q, want %q", dst, files[dst], source)
		}
	}
	for dst, source := range files {
		if _, err := os.Stat(source); err != nil && !strings.HasPrefix(source, "${DIST}/") {
			t.Errorf("%s: %v", dst, err)
		}
	}
}
