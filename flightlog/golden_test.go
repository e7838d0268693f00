package flightlog

import (
	"path/filepath"
	"strings"
	"testing"

	"optibfm/controller"
)

// TestReplay_AcceptsLogsOfEarlierVersions replays recorded runs of the rover: a downweighted label,
// a paced gate, undos, and a stop with a reset.
func TestReplay_AcceptsLogsOfEarlierVersions(t *testing.T) {
	for _, log := range []struct {
		name               string
		format             int
		ticks, downweights uint64
		labels, undos      uint64
		stop               controller.Fault
	}{
		{name: "format1-robust", format: 1, ticks: 80, labels: 26, downweights: 8},
		{name: "format1-paced", format: 1, ticks: 80, labels: 7},
		{name: "format1-undo", format: 1, ticks: 100, labels: 7, undos: 2},
		{name: "format2-robust", format: 2, ticks: 80, labels: 80, downweights: 58},
		{name: "format1-stop", format: 1, ticks: 100, labels: 15, stop: controller.FaultOperator},
	} {
		t.Run(log.name, func(t *testing.T) {
			r := open(t, filepath.Join("testdata", "golden", log.name+".mcap"))
			if got := r.Metadata().Format; got != log.format {
				t.Errorf("format %d, want %d", got, log.format)
			}
			result, err := Verify(r)
			must(t, err)
			if !result.OK() || result.Verified != log.ticks || result.Unverified != 0 || result.Cut != nil {
				t.Errorf("%d ticks verified, %d not, want %d; cut %v; first difference: %v",
					result.Verified, result.Unverified, log.ticks, result.Cut, result.First)
			}
			s := result.Summary
			if s.Labels[controller.Applied] != log.labels || s.Undone != log.undos || s.Doubted != log.downweights {
				t.Errorf("%d labels, %d undone, %d downweighted, want %d, %d, %d",
					s.Labels[controller.Applied], s.Undone, s.Doubted, log.labels, log.undos, log.downweights)
			}
			if log.stop != controller.FaultNone && s.Faults[log.stop] != 1 {
				t.Errorf("stops: %s, want %s", s.Stops(), log.stop)
			}
			summary, damage, err := Summarise(r)
			must(t, err)
			doubted := log.downweights
			if log.format < formatWithShare {
				doubted = 0
			}
			if len(damage) > 0 || summary.Ticks != log.ticks || summary.Doubted != doubted {
				t.Errorf("summary: damage %v, %d ticks, %d downweighted, want none, %d, %d",
					damage, summary.Ticks, summary.Doubted, log.ticks, doubted)
			}
		})
	}
}

func TestReplay_FindsAChangedShare(t *testing.T) {
	changed := false
	path, _ := simulation{cfg: simulationConfig(), ticks: 300, change: func(t *controller.Tick) {
		if !changed && t.NumLabels > 0 && t.Labels[0].Share > 0 {
			t.Labels[0].Share, changed = 0.5, true
		}
	}}.run(t)
	result, err := Verify(open(t, path))
	must(t, err)
	if result.OK() || !strings.HasSuffix(result.First.Field, "share") {
		t.Errorf("found %v, want a difference in a share", result.First)
	}
}

func TestRecover_KeepsTheFormatOfTheLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recovered.mcap")
	_, err := Recover(filepath.Join("testdata", "golden", "format1-robust.mcap"), path)
	must(t, err)
	r := open(t, path)
	result, err := Verify(r)
	must(t, err)
	if r.Metadata().Format != 1 || !result.OK() {
		t.Errorf("format %d, difference %v", r.Metadata().Format, result.First)
	}
}
