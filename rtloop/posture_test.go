package rtloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// childRole is the environment variable with the task of the test program as a child process.
const childRole = "OPTIBFM_RTLOOP_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(childRole) {
	case "":
		os.Exit(m.Run())
	case "posture":
		childAsksForEverything()
	case "stopped":
		childIsStopped()
	}
}

func child(role string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childRole+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

// demanding requests everything, and a processor that does not exist.
func demanding() Config {
	cfg := DefaultConfig()
	cfg.CPUs = []int{maxCPUs - 1}
	return cfg
}

func TestPrepare_ReportsOrRefusesMissingPosture(t *testing.T) {
	cfg := demanding()
	l, granted, err := Prepare(cfg)
	if err != nil {
		t.Fatalf("posture warn: %v", err)
	}
	l.Close()
	missing := granted.Missing()
	if len(granted.Grants) != 4 || len(missing) == 0 {
		t.Fatalf("%v", granted)
	}
	for _, g := range missing {
		if g.Asked == "" || g.Got == "" || g.Why == "" || g.Fix == "" {
			t.Errorf("%+v: a field is empty", g)
		}
	}

	cfg.Posture = Strict
	l, granted, err = Prepare(cfg)
	if !errors.Is(err, ErrPosture) || l != nil || len(granted.Grants) != 4 {
		t.Fatalf("posture strict: error %v, %v", err, granted)
	}
	if !strings.Contains(err.Error(), "cpus: [1023]: not granted") {
		t.Fatalf("error %v does not name the request", err)
	}
}

func TestPrepare_GrantedPostureIsReal(t *testing.T) {
	cfg := DefaultConfig()
	cfg.PeriodMS, cfg.CPUs, cfg.Priority, cfg.TimerSlackNS = 1, []int{0}, 33, 1234
	cfg.MaxMissed, cfg.WatchdogMS = NoLimit, 0
	l := prepare(t, cfg)
	granted := map[string]bool{}
	for _, g := range l.granted.Grants {
		granted[g.Request] = g.Granted
		if !g.Granted {
			t.Logf("cannot be seen here: %+v", g)
		}
	}
	_, err := l.Run(t.Context(), func(Beat) error {
		attr, err := unix.SchedGetAttr(0, 0)
		if err != nil {
			return err
		}
		if granted["fifo_priority"] && (attr.Policy != unix.SCHED_FIFO || attr.Priority != 33) {
			t.Errorf("policy %d, priority %d", attr.Policy, attr.Priority)
		}
		var cpus unix.CPUSet
		if err := unix.SchedGetaffinity(0, &cpus); err != nil {
			return err
		}
		if granted["cpus"] && fmt.Sprint(listCPUs(&cpus)) != "[0]" {
			t.Errorf("processors %v", listCPUs(&cpus))
		}
		slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		if err != nil || granted["timer_slack_ns"] != (slack <= 1234) {
			t.Errorf("timer slack %d ns", slack)
		}
		if locked := lockedKiB(t); granted["lock_memory"] == (locked == 0) {
			t.Errorf("%d KiB locked", locked)
		}
		return ErrUsed
	})
	if !errors.Is(err, ErrUsed) {
		t.Fatal(err)
	}
	if locked := lockedKiB(t); locked != 0 {
		t.Errorf("%d KiB still locked after the run", locked)
	}
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil || attr.Policy != unix.SCHED_NORMAL {
		t.Errorf("the caller's thread has policy %v, error %v", attr, err)
	}
}

func lockedKiB(t *testing.T) (kib int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	fatal.If(t, err)
	_, rest, _ := strings.Cut(string(status), "VmLck:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}

func childAsksForEverything() {
	_, granted, err := Prepare(demanding())
	if err != nil {
		panic(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(granted); err != nil {
		panic(err)
	}
}

func TestGranted_HasFixesForAnOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become an ordinary user with known limits")
	}
	cmd := child("posture")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.Dir = "/"
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("the test program cannot run as another user: %v", err)
	}
	var granted Granted
	if err := json.Unmarshal(out, &granted); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	fixes := map[string]string{
		"fifo_priority": "LimitRTPRIO=80", "lock_memory": "LimitMEMLOCK=infinity", "cpus": "taskset",
	}
	for _, g := range granted.Grants {
		if want := fixes[g.Request]; want != "" && (g.Granted || !strings.Contains(g.Fix, want)) {
			t.Errorf("%+v: want a fix with %q", g, want)
		}
	}
}

func TestGroupBudget_NamesGroupAndFile(t *testing.T) {
	const v1 = "12:pids:/x\n5:cpu,cpuacct:/system.slice/ssh.service\n1:name=systemd:/y\n"
	const budget = "sys/fs/cgroup/cpu,cpuacct/system.slice/ssh.service/cpu.rt_runtime_us"
	for name, c := range map[string]struct {
		groups, file, content string
		permitted             bool
		why, fix              string
	}{
		"no budget": {v1, budget, "0\n", true,
			"the control group /system.slice/ssh.service has no real-time budget: /" + budget + " is 0", "tee /" + budget},
		"no budget, no permission": {v1, budget, "0\n", false, "no real-time budget", "tee /" + budget},
		"mounted as cpu": {"3:cpu:/a\n", "sys/fs/cgroup/cpu/a/cpu.rt_runtime_us", "0\n", true,
			"/sys/fs/cgroup/cpu/a/cpu.rt_runtime_us", "tee"},
		"a budget":     {v1, budget, "950000\n", true, "", ""},
		"no such file": {v1, "proc/version", "Linux", true, "", ""},
		"version 2": {"0::/user.slice\n", "proc/version", "Linux", true,
			"/user.slice (CONFIG_RT_GROUP_SCHED)", "cgroup.procs"},
		"no permission": {"0::/user.slice\n", "proc/version", "Linux", false, "", ""},
		"the root":      {"0::/\n", "proc/version", "Linux", true, "", ""},
		"both versions": {"1:cpu:/a\n0::/b\n", "sys/fs/cgroup/cpu/a/cpu.rt_runtime_us", "1\n", true, "", ""},
		"no groups":     {"", "proc/version", "Linux", true, "", ""},
	} {
		files := fstest.MapFS{"proc/self/cgroup": {Data: []byte(c.groups)}, c.file: {Data: []byte(c.content)}}
		why, fix := groupBudget(files, c.permitted)
		if (why == "") != (c.why == "") || !strings.Contains(why, c.why) || !strings.Contains(fix, c.fix) {
			t.Errorf("%s: %q; %q", name, why, fix)
		}
	}
}

func TestRealTimeKernel_ReadsVersionAndFlag(t *testing.T) {
	for _, c := range []struct {
		version, flag string
		want          bool
	}{
		{"Linux version 6.1.0-44-rt-amd64 #1 SMP PREEMPT_RT Debian", "", true},
		{"Linux version 5.10.0 #1 SMP PREEMPT", "1\n", true},
		{"Linux version 6.1.0-44-amd64 #1 SMP PREEMPT_DYNAMIC Debian", "", false},
		{"", "0\n", false},
	} {
		files := fstest.MapFS{"proc/version": {Data: []byte(c.version)}}
		if c.flag != "" {
			files["sys/kernel/realtime"] = &fstest.MapFile{Data: []byte(c.flag)}
		}
		if found := RealTimeKernel(files); found != c.want {
			t.Errorf("%+v: %t", c, found)
		}
	}
}

// childIsStopped runs until its parent has stopped and continued it.
func childIsStopped() {
	cfg := modest()
	cfg.PeriodMS, cfg.WatchdogMS = 5, 100
	l, _, err := Prepare(cfg)
	if err != nil {
		panic(err)
	}
	l.OnStuck = func(Stall) { fmt.Println("stuck") }
	fmt.Println("running")
	longest := uint64(0)
	r, err := l.Run(context.Background(), func(b Beat) error {
		longest = max(longest, b.Elapsed)
		if longest > 40 && b.Elapsed == 1 {
			return ErrUsed
		}
		return nil
	})
	fmt.Println("identity", r.Identity(), "skipped", r.Skipped > 40, errors.Is(err, ErrUsed))
}

func TestLoop_StoppedProcessSkipsPeriodsAndIsNotStuck(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a second")
	}
	cmd := child("stopped")
	var out strings.Builder
	cmd.Stdout = &out
	fatal.If(t, cmd.Start())
	pause := func(d time.Duration, signal syscall.Signal) {
		time.Sleep(d)
		errtest.Nil(t, cmd.Process.Signal(signal))
	}
	pause(300*time.Millisecond, syscall.SIGSTOP)
	pause(400*time.Millisecond, syscall.SIGCONT)
	giveUp := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer giveUp.Stop()
	fatal.If(t, cmd.Wait())
	if got, want := out.String(), "running\nidentity true skipped true true\n"; got != want {
		t.Fatalf("the child printed %q, want %q", got, want)
	}
}
