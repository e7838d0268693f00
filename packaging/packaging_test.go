package packaging_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/rtloop"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTheInstalledConfigurationIsValidAndMovesNothingReal(t *testing.T) {
	file, err := configs.Load("robot.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if file.Robot.Driver != configs.DriverRover || file.Loop.Posture != rtloop.Strict || file.Log.MinFreeGB <= 0 {
		t.Errorf("driver %s, posture %s, %g GB free", file.Robot.Driver, file.Loop.Posture, file.Log.MinFreeGB)
	}
	folders := read(t, "tmpfiles.conf")
	for _, dir := range []string{file.Log.Dir, strings.TrimSuffix(file.Run.StateDir, "/belief")} {
		if !regexp.MustCompile(`(?m)^d ` + dir + ` +\d+ optibfm optibfm$`).MatchString(folders) {
			t.Errorf("%s is not made for the service's user:\n%s", dir, folders)
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

func TestTheServiceStopsInOrderAndItsWatchdogIsTheLastOfThem(t *testing.T) {
	for key, want := range map[string]string{
		"Type": "notify", "NotifyAccess": "main", "KillMode": "mixed", "Restart": "on-failure",
		"LimitMEMLOCK": "infinity", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "User": "optibfm", "WatchdogSec": "2",
	} {
		if got := unit(t, key); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: found %q, want %q", key, got, want)
		}
	}
	file, err := configs.Load("robot.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if file.Loop.WatchdogMS <= 0 || file.Loop.WatchdogMS >= 2000/2 {
		t.Errorf("loop.watchdog_ms: found %g: the loop's own watchdog halts the robot before the service's kills the process", file.Loop.WatchdogMS)
	}
}

func TestEveryGroupOfTheServiceExistsAndItsDevicesBelongToOne(t *testing.T) {
	users, rules := read(t, "sysusers.conf"), read(t, "udev.rules")
	for _, group := range strings.Fields(strings.Join(unit(t, "SupplementaryGroups"), " ")) {
		if !strings.Contains(users, "m optibfm "+group+"\n") {
			t.Errorf("the user is not made a member of %s", group)
		}
	}
	for _, m := range regexp.MustCompile(`GROUP="(\w+)"`).FindAllStringSubmatch(rules, -1) {
		if !strings.Contains(users, "m optibfm "+m[1]+"\n") {
			t.Errorf("devices are given to %s, which the user is not in", m[1])
		}
	}
	if families := unit(t, "RestrictAddressFamilies"); len(families) != 1 || !strings.Contains(families[0], "AF_CAN") {
		t.Errorf("address families: %q", families)
	}
}

func TestAKilledServiceIsHaltedAndOneThatEndedWellIsLeftAlone(t *testing.T) {
	post, start := unit(t, "ExecStopPost"), unit(t, "ExecStart")
	if len(post) != 1 || !strings.HasPrefix(post[0], "/usr/bin/optibfm halt --if-failed --config ") {
		t.Fatalf("ExecStopPost: found %q", post)
	}
	_, config, _ := strings.Cut(post[0], "--config ")
	if !strings.Contains(start[0], "--config "+config) {
		t.Errorf("it halts the robot of %s, the service runs another: %q", config, start)
	}
}

func TestTheDropInForAGPUUsesPatternsOnlyWhereTheServiceManagerKnowsThem(t *testing.T) {
	text := read(t, "gpu.conf")
	allowed := regexp.MustCompile(`(?m)^DeviceAllow=(\S+) rw$`).FindAllStringSubmatch(text, -1)
	if len(allowed) != strings.Count(text, "DeviceAllow=") || len(allowed) < 5 {
		t.Errorf("found %q", allowed)
	}
	for _, m := range allowed {
		if strings.HasPrefix(m[1], "/dev/") && strings.ContainsAny(m[1], "*?[") {
			t.Errorf("%s: a path is taken as it is written: use char- and a name of /proc/devices", m[1])
		}
	}
	if !strings.Contains(text, "\nMemoryDenyWriteExecute=no\n") || !strings.Contains(read(t, "nfpm.yaml"), "src: gpu.conf") {
		t.Error("TensorFlow may not make code, or the package lacks the file")
	}
}
