package flightlog

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"

	"optibfm/controller"
	"optibfm/flightlog/flightlogtest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// switched returns a run that switches to a saved task, with a periodic snapshot before the tick of
// the switch.
func switched() simulation {
	cfg := flightlogtest.Config()
	cfg.Gate.StopWhenLearnt = true
	return simulation{Config: cfg, Ticks: 1000, Every: 1, Another: 500}
}

func TestVerify_RepeatsASwitchOfTheTask(t *testing.T) {
	switches := 0
	run := switched()
	run.Change = func(t *controller.Tick) {
		if t.Flags.Has(controller.FlagSwitched) {
			switches++
		}
	}
	path, z := run.run(t)
	result := verify(t, path)
	if !result.OK() || result.Verified != 1000 || len(result.Gaps) != 0 || switches != 1 {
		t.Fatalf("first difference %v, %d verified, gaps %v", result.First, result.Verified, result.Gaps)
	}
	sameVector(t, result.Z, z, 0)
}

func TestVerify_DetectsADamagedSwitch(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(s *Snapshot)
		damage bool
	}{
		"another number":     {func(s *Snapshot) { s.State[0] *= 1.5 }, true},
		"another hash":       {func(s *Snapshot) { s.Hash ^= 1 }, true},
		"an impossible R":    {func(s *Snapshot) { s.State[0] = -1 }, true},
		"impossible noise":   {func(s *Snapshot) { s.Noise.Count = -1 }, true},
		"too short":          {func(s *Snapshot) { s.State = s.State[1:] }, true},
		"of another tick":    {func(s *Snapshot) { s.Next++ }, false},
		"missing":            {func(s *Snapshot) { s.Task = "" }, false},
		"a forgotten weight": {func(s *Snapshot) { s.State[len(s.State)-1] = math.NaN() }, true},
	} {
		run := switched()
		path, _ := run.runSpoilt(t, c.spoil)
		result, err := Verify(open(t, path))
		if c.damage {
			errtest.Is(t, err, ErrDamaged, name)
			continue
		}
		fatal.If(t, err)
		if !result.OK() || len(result.Gaps) != 1 || !strings.Contains(result.Gaps[0].Reason, "switched") ||
			!result.Gaps[0].Ended || result.Unverified == 0 {
			t.Errorf("%s: gaps %+v, first difference %v", name, result.Gaps, result.First)
		}
		errtest.Contains(t, errtest.Of(WhatIf(open(t, path), Params{})), "is missing", name, ": what-if")
	}
}

func TestVerify_ASwitchEndsAGap(t *testing.T) {
	run := switched()
	run.Every = 0
	run.Drop = func(i uint64) bool { return i >= 300 && i < 330 }
	path, z := run.run(t)
	result := verify(t, path)
	if !result.OK() || len(result.Gaps) != 1 || !result.Gaps[0].Ended || result.Verified < 700 {
		t.Fatalf("%d verified, gaps %+v, first difference %v", result.Verified, result.Gaps, result.First)
	}
	sameVector(t, result.Z, z, 0)
}

func TestVerify_LosesADroppedSwitchUntilTheNextSnapshot(t *testing.T) {
	run := switched()
	run.Every = 90
	run.Drop = func(i uint64) bool { return i >= 499 && i < 505 }
	path, z := run.run(t)
	result := verify(t, path)
	if !result.OK() || len(result.Gaps) == 0 || !result.Gaps[len(result.Gaps)-1].Ended {
		t.Fatalf("gaps %+v, first difference %v", result.Gaps, result.First)
	}
	sameVector(t, result.Z, z, 0)
}

// The name of the task stands in the snapshot alone: a chunk with a flipped bit there is damage.
func TestVerify_FlippedBitInASwitchIsDamage(t *testing.T) {
	path, _ := switched().run(t)
	log, err := os.ReadFile(path)
	fatal.If(t, err)
	at := bytes.LastIndex(log, []byte("\x32\x04walk"))
	if at < 0 {
		t.Fatal("no name of the task in the log")
	}
	log[at-9] ^= 4
	fatal.If(t, os.WriteFile(path, log, 0o600))
	result, err := Verify(open(t, path))
	if err == nil && result.OK() {
		t.Error("verified")
	}
}

func TestWhatIf_FollowsASwitch(t *testing.T) {
	run := switched()
	run.Keep = true
	path, z := run.run(t)
	sameVector(t, whatIfOf(t, path, Params{}).Z, z, 0)
	half := 0.5
	for name, p := range map[string]Params{"lambda": {Lambda: &half}, "rho": {Rho: &half}} {
		errtest.Is(t, errtest.Of(WhatIf(open(t, path), p)), ErrWarmStart, name)
	}
	if kappa := 0.1; whatIfOf(t, path, Params{Kappa: &kappa}).Asked == 0 {
		t.Error("no request")
	}
}
