package packaging_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// fakeRobot is a folder with fake programs for ssh, scp and the tools of a robot.
// Files in the folder are their state.
type fakeRobot struct {
	t   *testing.T
	dir string
}

// fakes are the programs. $R is the folder of the robot. Every call is recorded.
var fakes = map[string]string{
	"ssh": `shift; [ "${1:-}" != -t ] || shift; exec sh -c "$*"`,
	"scp": `shift; for last; do :; done; for f; do [ "$f" = "$last" ] || cp "$f" "${last#*:}"; done`,
	"id":  `echo 0`,
	"apt-get": `for deb; do :; done
[ ! -e "$R/install-fails" ] || { echo "E: broken"; exit 100; }
cat "$deb" >"$R/installed"`,
	"dpkg": `echo arm64`,
	"dpkg-deb": `case "$3" in
Version) sed -n 1p "$2" ;;
Architecture) sed -n 2p "$2" ;;
esac`,
	"dpkg-query": `[ -e "$R/installed" ] && echo "installed $(sed -n 1p "$R/installed")"`,
	"optibfm": `case "$1" in
config) ! grep -q refuses "$R/installed" ;;
doctor) exit 0 ;;
esac`,
	"systemd-run": `exit 1`,
	"systemctl": `[ "$1" != --quiet ] || shift
case "$1" in
is-active)
  [ ! -e "$R/restarts" ] || { echo activating; exit 3; }
  [ -e "$R/active" ] && echo active ;;
stop) rm -f "$R/active" "$R/restarts" ;;
restart)
  rm -f "$R/active"
  ! grep -q unready "$R/installed" || exit 1
  touch "$R/active" ;;
show)
  n=$(cat "$R/starts" 2>/dev/null || echo 0)
  ! grep -q dies "$R/installed" || n=$((n + 1))
  echo $n | tee "$R/starts" ;;
esac`,
}

func newFakeRobot(t *testing.T) *fakeRobot {
	t.Helper()
	r := &fakeRobot{t: t, dir: t.TempDir()}
	for name, body := range fakes {
		script := "#!/bin/sh\nR=" + r.dir + "\necho \"" + name + " $*\" >>\"$R/calls\"\n" + body + "\n"
		r.write("bin/"+name, script, 0o755)
	}
	return r
}

func (r *fakeRobot) write(name, text string, mode os.FileMode) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	fatal.If(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
	fatal.If(r.t, os.WriteFile(path, []byte(text), mode))
	return path
}

// deb creates a package with a version, an architecture and a behaviour.
func (r *fakeRobot) deb(version, behaves string) string {
	return r.write("optibfm_"+version+"_arm64.deb", version+"\narm64\n"+behaves+"\n", 0o644)
}

// flash runs the script and returns its exit status and output.
func (r *fakeRobot) flash(args ...string) (int, string) {
	r.t.Helper()
	cmd := exec.Command("../scripts/flash.sh", append(args, "me@robot")...)
	cmd.Env = r.environment()
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		r.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func (r *fakeRobot) environment() []string {
	return append(os.Environ(), "PATH="+filepath.Join(r.dir, "bin")+":"+os.Getenv("PATH"),
		"OPTIBFM_KEEP="+filepath.Join(r.dir, "keep"), "OPTIBFM_CONFIG="+filepath.Join(r.dir, "robot.yaml"),
		"OPTIBFM_SETTLE_S=0")
}

func (r *fakeRobot) has(name string) bool {
	_, err := os.Stat(filepath.Join(r.dir, name))
	return err == nil
}

func (r *fakeRobot) version() string {
	text, _ := os.ReadFile(filepath.Join(r.dir, "installed"))
	version, _, _ := strings.Cut(string(text), "\n")
	return version
}

func (r *fakeRobot) calls() string {
	text, _ := os.ReadFile(filepath.Join(r.dir, "calls"))
	return string(text)
}

// expect checks the result of a flash.
func (r *fakeRobot) expect(status int, out string, want int, version string, active bool, wantText string) {
	r.t.Helper()
	if status != want || r.version() != version || r.has("active") != active || !strings.Contains(out, wantText) {
		r.t.Errorf("exit %d (want %d), installed %q (want %q), active %t (want %t), want output %q:\n%s",
			status, want, r.version(), version, r.has("active"), active, wantText, out)
	}
}

func TestFlash_InstallsStartsAndKeepsThePreviousVersion(t *testing.T) {
	r := newFakeRobot(t)
	status, out := r.flash("--deb", r.deb("1.0", ""))
	r.expect(status, out, 0, "1.0", true, "1.0 is ready")
	status, out = r.flash("--deb", r.deb("2.0", ""))
	r.expect(status, out, 0, "2.0", true, "2.0 is ready; 1.0 is kept")
	if !r.has("keep/previous.deb") {
		t.Error("the previous version is not kept")
	}
	status, out = r.flash("--deb", r.deb("2.0", "")) // again
	r.expect(status, out, 0, "2.0", true, "2.0 is ready")
	calls := r.calls()
	stop, install := strings.LastIndex(calls, "systemctl stop"), strings.LastIndex(calls, "apt-get install")
	if stop < 0 || stop > install {
		t.Error("the program was replaced before the robot was halted")
	}
	if !strings.Contains(calls, "--force-confold") || strings.Contains(calls, "enable") {
		t.Errorf("calls:\n%s", calls)
	}
}

func TestFlash_RollsBackAVersionThatIsNotReady(t *testing.T) {
	for behaves, wantText := range map[string]string{
		"unready": "did not become ready",
		"dies":    "did not become ready",
		"refuses": "refuses /",
	} {
		t.Run(behaves, func(t *testing.T) {
			r := newFakeRobot(t)
			status, out := r.flash("--deb", r.deb("1.0", ""))
			r.expect(status, out, 0, "1.0", true, "ready")
			status, out = r.flash("--deb", r.deb("2.0", behaves))
			r.expect(status, out, 3, "1.0", true, wantText)
			if !strings.Contains(out, "1.0 is restored and ready") {
				t.Errorf("found:\n%s", out)
			}
			status, out = r.flash("--deb", r.deb("3.0", "")) // the previous package is there again
			r.expect(status, out, 0, "3.0", true, "1.0 is kept")
		})
	}
}

func TestFlash_RollbackDoesNotStartAStoppedService(t *testing.T) {
	r := newFakeRobot(t)
	r.flash("--deb", r.deb("1.0", ""))
	fatal.If(t, os.Remove(filepath.Join(r.dir, "active")))
	status, out := r.flash("--deb", r.deb("2.0", "unready"))
	r.expect(status, out, 3, "1.0", false, "was not running, and is not")
}

func TestFlash_StopsAServiceBetweenTwoRestarts(t *testing.T) {
	r := newFakeRobot(t)
	r.flash("--deb", r.deb("1.0", ""))
	r.write("restarts", "", 0o644)
	status, out := r.flash("--deb", r.deb("2.0", ""))
	r.expect(status, out, 0, "2.0", true, "halting the robot")
}

func TestFlash_LeavesTheServiceStoppedWithoutAPreviousVersion(t *testing.T) {
	r := newFakeRobot(t)
	status, out := r.flash("--deb", r.deb("1.0", "unready"))
	r.expect(status, out, 1, "1.0", false, "no previous version")
}

func TestFlash_ReportsAFailedInstallation(t *testing.T) {
	r := newFakeRobot(t)
	r.flash("--deb", r.deb("1.0", ""))
	r.write("install-fails", "", 0o644)
	status, out := r.flash("--deb", r.deb("2.0", ""))
	r.expect(status, out, 1, "1.0", false, "restoring failed too")
}

func TestFlash_DryRunChangesNothing(t *testing.T) {
	r := newFakeRobot(t)
	status, out := r.flash("--dry-run", "--deb", r.deb("1.0", ""))
	r.expect(status, out, 0, "", false, "would run")
	if r.calls() != "" {
		t.Errorf("calls:\n%s", r.calls())
	}
	r.write("bin/ssh", "#!/bin/sh\nexit 255\n", 0o755) // no robot answers
	status, out = r.flash("--dry-run")
	r.expect(status, out, 0, "", false, "would run: scripts/package.sh")
	status, out = r.flash("--help")
	r.expect(status, out, 0, "", false, "Installs optibfm on a robot")
}

func TestFlash_RefusesAPackageForAnotherProcessor(t *testing.T) {
	r := newFakeRobot(t)
	deb := r.write("x.deb", "1.0\namd64\n\n", 0o644)
	status, out := r.flash("--deb", deb)
	r.expect(status, out, 1, "", false, "is for amd64, the robot is arm64")
	status, out = r.flash("--deb", filepath.Join(r.dir, "none.deb"))
	r.expect(status, out, 1, "", false, "no such file")
}

// The name of a package is never a part of a command, an option or a host.
func TestFlash_TakesAnyNameOfAPackage(t *testing.T) {
	for i, name := range []string{
		"x;touch y;.deb", "$(touch y).deb", "`touch y`.deb", "a b.deb", "a'b\".deb", "-x.deb", "robot:x.deb", "a\nb.deb",
	} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			r := newFakeRobot(t)
			r.write(name, "1.0\narm64\n\n", 0o644)
			script, err := filepath.Abs("../scripts/flash.sh")
			fatal.If(t, err)
			for _, path := range []string{name, "./" + name, filepath.Join(r.dir, name)} {
				cmd := exec.Command(script, "--deb", path, "me@robot")
				cmd.Dir, cmd.Env = r.dir, r.environment()
				out, err := cmd.CombinedOutput()
				if err != nil || r.version() != "1.0" {
					t.Errorf("%q: %v, installed %q:\n%s", path, err, r.version(), out)
				}
				if r.has("y") {
					t.Errorf("%q: the name runs a command:\n%s", path, r.calls())
				}
				errtest.Nil(t, os.Remove(filepath.Join(r.dir, "installed")))
			}
		})
	}
}
