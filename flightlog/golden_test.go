package flightlog

import (
	"encoding/binary"
	"hash/fnv"
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

// TestReplay_ReadsStableFormatsBitForBit replays runs of the rover that earlier programs recorded: with the presets
// paper (ucb, lockstep) and person (lockstep), with every kind of label while the robot holds still, with a stop, a
// reset and a disarmament, with start and rest poses (all three in real time), and with the appraisal of the task
// (thompson, lockstep). Format 5 is the first stable one.
func TestReplay_ReadsStableFormatsBitForBit(t *testing.T) {
	for _, log := range []struct {
		name          string
		ticks         uint64
		labels, undos uint64
		held, moving  int
		digest        uint64 // of hash, flags and action of each tick
	}{
		{name: "format5-paper", ticks: 60, labels: 50, digest: 0xba7d0c587f5ee0c4},
		{name: "format5-person", ticks: 120, labels: 10, digest: 0xc67fe0defa994e4},
		{name: "format5-labels", ticks: 120, labels: 9, undos: 2, held: 53, digest: 0xfb92ff63c0cb585a},
		{name: "format5-stop", ticks: 80, labels: 5, digest: 0x6fa4325c3f288072},
		{name: "format6-start", ticks: 80, labels: 2, moving: 24, digest: 0xf83122416dc6402c},
		{name: "format8-appraisal", ticks: 126, labels: 126, digest: 0x9dee355e5c4be80},
	} {
		t.Run(log.name, func(t *testing.T) {
			r := open(t, filepath.Join("testdata", "golden", log.name+".mcap"))
			result, err := Verify(r)
			must(t, err)
			if !result.OK() || result.Verified != log.ticks || result.Unverified != 0 {
				t.Errorf("%d ticks verified, %d not, want %d, 0; first difference: %v",
					result.Verified, result.Unverified, log.ticks, result.First)
			}
			s := result.Summary
			if s.Labels[controller.Applied] != log.labels || s.Undone != log.undos {
				t.Errorf("%d labels, %d undone, want %d, %d",
					s.Labels[controller.Applied], s.Undone, log.labels, log.undos)
			}
			held, digest := digestTicks(t, r)
			if held != log.held || int(s.Moving) != log.moving || digest != log.digest {
				t.Errorf("%d ticks held, %d to poses, digest %#x, want %d, %d, %#x",
					held, s.Moving, digest, log.held, log.moving, log.digest)
			}
		})
	}
}

// digestTicks counts the ticks in which the robot was held, and hashes what every tick decided.
func digestTicks(t *testing.T, r *Reader) (held int, digest uint64) {
	t.Helper()
	h := fnv.New64a()
	for record, err := range r.Records() {
		must(t, err)
		tick := record.Tick
		if tick == nil {
			continue
		}
		if tick.Flags.Has(controller.FlagHeld) {
			held++
		}
		must(t, binary.Write(h, binary.LittleEndian, tick.Hash))
		must(t, binary.Write(h, binary.LittleEndian, uint32(tick.Flags)))
		must(t, binary.Write(h, binary.LittleEndian, tick.Action))
	}
	return held, h.Sum64()
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
