package doctor

import (
	"errors"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestGovernor(t *testing.T) {
	for _, l := range []look{
		{"performance", jetson, nil, nil, statusOK, []string{"performance on 5"}},
		{"jetson", jetson, map[string]string{"/sys/devices/system/cpu/cpu5/cpufreq/scaling_governor": "schedutil"}, nil, statusWarn, []string{"schedutil", "jetson_clocks"}},
		{"mixed", badPC, nil, []string{"loop.cpus=[]"}, statusWarn, []string{"performance on 2, powersave on 0-1", "cpupower"}},
		{"none", badPC, nil, nil, statusOK, []string{"does not change"}},
	} {
		l.run(t, (*doctor).governor)
	}
}

func TestIdleStates(t *testing.T) {
	for _, l := range []look{
		{"deep one off", jetson, nil, nil, statusOK, []string{"WFI", "1 µs"}},
		{"deep", jetson, map[string]string{"/sys/devices/system/cpu/cpu5/cpuidle/state1/disable": "0"}, nil, statusWarn, []string{"c7", "5.0 ms", "idle-set"}},
		{"none", badPC, nil, nil, statusOK, []string{"no processor to deep sleep"}},
	} {
		l.run(t, (*doctor).idleStates)
	}
}

func TestTemperature(t *testing.T) {
	const zone = "/sys/class/thermal/thermal_zone0/"
	for _, l := range []look{
		{"cool", jetson, nil, nil, statusOK, []string{"cpu-thermal, 51 °C of 99"}},
		{"warm", jetson, map[string]string{zone + "temp": "95000"}, nil, statusWarn, []string{"95 °C of 99", "fan"}},
		{"critical", badPC, nil, nil, statusFail, []string{"97 °C of 100", "switch the computer off"}},
		{"without trips", jetson, map[string]string{zone + "trip_point_0_type": "-", zone + "trip_point_1_type": "active", zone + "type": "-"}, nil, statusOK, []string{"thermal_zone0, 51 °C of 85"}},
		{"switched off", jetson, map[string]string{zone + "temp": "-"}, nil, statusSkip, nil},
	} {
		l.run(t, (*doctor).temperature)
	}
}

func TestThrottled(t *testing.T) {
	const pi = "/sys/devices/platform/soc/soc:firmware/get_throttled"
	for _, l := range []look{
		{"a fan is none", jetson, nil, nil, statusOK, nil},
		{"now", badPC, nil, nil, statusWarn, []string{"now by Processor"}},
		{"before", badPC, map[string]string{"/sys/class/thermal/cooling_device0/cur_state": "0"}, nil, statusWarn, []string{"17 times by heat"}},
		{"a Pi's supply", jetson, map[string]string{pi: "50000"}, nil, statusWarn, []string{"under-voltage"}},
		{"a Pi now", jetson, map[string]string{pi: "0x50005"}, nil, statusWarn, []string{"now by the Raspberry Pi's firmware"}},
		{"damaged", jetson, map[string]string{pi: "zz"}, nil, statusOK, nil},
	} {
		l.run(t, (*doctor).throttled)
	}
}

func TestPowerMode(t *testing.T) {
	for _, l := range []look{
		{"all", jetson, nil, nil, statusOK, []string{"6 of 6", "nvpmodel 0 (15W)"}},
		{"some", jetson, map[string]string{"/sys/devices/system/cpu/online": "0-3,5", "/var/lib/nvpmodel/status": "pmode:0001"}, nil, statusWarn, []string{"5 of 6", "1 (7W)", "nvpmodel -m 0"}},
		{"ours is off", jetson, map[string]string{"/sys/devices/system/cpu/online": "0-3"}, nil, statusWarn, []string{"processor 5 of loop.cpus is off"}},
		{"a PC", badPC, nil, []string{"loop.cpus=[1]"}, statusOK, []string{"4 of 8"}},
		{"unknown mode", jetson, map[string]string{"/var/lib/nvpmodel/status": "pmode:0007"}, nil, statusOK, []string{"nvpmodel 7"}},
		{"damaged", jetson, map[string]string{"/var/lib/nvpmodel/status": "pmode:x"}, nil, statusOK, nil},
		{"unknown", jetson, map[string]string{"/sys/devices/system/cpu/present": "-"}, nil, statusSkip, nil},
	} {
		l.run(t, (*doctor).powerMode)
	}
}

func TestMemorySize(t *testing.T) {
	for _, l := range []look{
		{"enough", jetson, nil, nil, statusOK, []string{"5120 of 7619 MiB free, up to 512"}},
		{"not free", badPC, nil, nil, statusWarn, []string{"256 of 1024", "killed"}},
		{"half", jetson, nil, []string{"loop.memory_limit_mib=4000"}, statusWarn, []string{"half"}},
		{"more than there is", badPC, nil, []string{"loop.memory_limit_mib=2000"}, statusFail, []string{"memory_limit_mib"}},
		{"unknown", jetson, map[string]string{"/proc/meminfo": "MemTotal: x kB"}, nil, statusSkip, nil},
	} {
		l.run(t, (*doctor).memorySize)
	}
}

func TestClockSource(t *testing.T) {
	for _, l := range []look{
		{"counter", jetson, nil, nil, statusOK, []string{"arch_sys_counter"}},
		{"hpet", badPC, nil, nil, statusWarn, []string{"hpet", "dmesg"}},
		{"unknown", tree0, nil, nil, statusSkip, nil},
	} {
		l.run(t, (*doctor).clockSource)
	}
	m := fakeMachine(tree(jetson))
	m.clockLook = func() time.Duration { return 2 * time.Microsecond }
	verdict(t, "slow", examined(t, m, "").clockSource(), statusWarn, "takes 2µs")
	if lookAtClock() <= 0 {
		t.Error("a look at the clock takes no time")
	}
}

var tree0 = map[string]string{}

func TestTheWallClock(t *testing.T) {
	m := fakeMachine(tree())
	verdict(t, "good", examined(t, m, "").synchronised(), statusOK, "1.5 ms")
	for name, c := range map[string]struct {
		t      unix.Timex
		state  int
		err    error
		status string
	}{
		"unsynchronised": {unix.Timex{Time: unix.Timeval{Sec: 1_800_000_000}, Status: unix.STA_UNSYNC}, unix.TIME_ERROR, nil, statusWarn},
		"1970":           {unix.Timex{Time: unix.Timeval{Sec: 100}}, 0, nil, statusWarn},
		"refused":        {unix.Timex{}, 0, errors.New("not permitted"), statusSkip},
	} {
		m.wallClock = func() (unix.Timex, int, error) { return c.t, c.state, c.err }
		verdict(t, name, examined(t, m, "").synchronised(), c.status)
	}
}

func TestListsOfProcessorsAreReadAndWrittenTheKernelsWay(t *testing.T) {
	for text, want := range map[string][]int{"0-2,5": {0, 1, 2, 5}, "": nil, "(null)": nil, "3": {3}, "2-1": nil, "-1": nil, "0-99999999": nil, " 1 , 2": {1, 2}} {
		if got := parseCPUs(text); !slices.Equal(got, want) {
			t.Errorf("%q: %v", text, got)
		}
	}
	for want, cpus := range map[string][]int{"0-2,5": {5, 0, 1, 2, 2}, "none": nil, "7": {7}} {
		if got := showCPUs(cpus); got != want {
			t.Errorf("%v: %s", cpus, got)
		}
	}
}
