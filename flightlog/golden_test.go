package flightlog

import (
	"encoding/binary"
	"hash/fnv"
	"path/filepath"
	"testing"

	"optibfm/controller"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// TestReplay_ReadsStableFormatsBitForBit replays runs of the rover that earlier programs recorded:
// with the presets paper (ucb, lockstep) and person (lockstep), with every kind of label while the
// robot holds still, with a stop, a reset and a disarmament, with start and rest poses (all three
// in real time), with the appraisal of the task (thompson, lockstep), and with evidence of a changed
// task that counts correlated labels fully (thompson, lockstep).
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
		{name: "format13-evidence", ticks: 100, labels: 48, digest: 0xc1a15b2cdf6e1e81},
	} {
		t.Run(log.name, func(t *testing.T) {
			r := open(t, filepath.Join("testdata", "golden", log.name+".mcap"))
			result, err := Verify(r)
			fatal.If(t, err)
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
		fatal.If(t, err)
		tick := record.Tick
		if tick == nil {
			continue
		}
		if tick.Flags.Has(controller.FlagHeld) {
			held++
		}
		fatal.If(t, binary.Write(h, binary.LittleEndian, tick.Hash))
		fatal.If(t, binary.Write(h, binary.LittleEndian, uint32(tick.Flags)))
		fatal.If(t, binary.Write(h, binary.LittleEndian, tick.Action))
	}
	return held, h.Sum64()
}

func TestRecover_KeepsTheFormatOfTheLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recovered.mcap")
	fatal.If(t, errtest.Of(Recover(filepath.Join("testdata", "golden", "format5-paper.mcap"), path)))
	r := open(t, path)
	result, err := Verify(r)
	fatal.If(t, err)
	if r.Metadata().Format != 5 || !result.OK() {
		t.Errorf("format %d, difference %v", r.Metadata().Format, result.First)
	}
}
