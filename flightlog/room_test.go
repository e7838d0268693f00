package flightlog

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/controller"
	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// agedLog writes a closed log of a learner's run with a label every so many
// ticks (0: none), so many days old. Its ticks verify.
func agedLog(t testing.TB, dir, name string, ticks, labelEvery uint64, days int) string {
	t.Helper()
	path := filepath.Join(dir, name+".mcap")
	meta := testMetadata(testShape)
	w, err := Create(path, meta, Options{NoSync: true})
	must(t, err)
	learner, err := controller.NewLearner(meta.Control, testShape.Latent, meta.Robot.Period)
	must(t, err)
	state := make([]float64, posterior.StateLen(testShape.Latent))
	id := uint64(0)
	for i := range ticks {
		if i%100 == 0 {
			learner.Belief().State(state)
			must(t, w.WriteSnapshot(i, state, learner.Belief().Hash()))
		}
		tick := randomTick(testShape, i)
		tick.Fault, tick.NumLabels, tick.Flags = controller.FaultNone, 0, controller.FlagArmed
		learner.Advance(tick.Elapsed)
		tick.NormSq = learner.Belief().NormSq(tick.Phi)
		tick.DGap = posterior.DGap(tick.NormSq, learner.LabelWeight())
		learner.Observe(i, tick.SenseAt, tick.Phi)
		if labelEvery > 0 && i%labelEvery == labelEvery-1 {
			id++
			label := testLabel(id)
			label.Tick, label.At = i-1, tick.SenseAt
			must(t, w.WriteLabel(label))
			tick.Labels[0], tick.NumLabels = learner.Apply(label, 0), 1
		}
		tick.LogDet, tick.Hash = learner.Belief().LogDet(), learner.Belief().Hash()
		must(t, w.WriteTick(tick))
	}
	must(t, w.Close())
	when := time.Now().AddDate(0, 0, -days)
	must(t, os.Chtimes(path, when, when))
	return path
}

// contents are the labels of a log, and the ticks that they are about.
func contents(t *testing.T, path string) (labels []rewardsrc.Label, about map[uint64][]float64) {
	t.Helper()
	about = make(map[uint64][]float64)
	wanted := make(map[uint64]bool)
	r := open(t, path)
	for record, err := range r.Records() {
		must(t, err)
		if record.Label != nil {
			labels = append(labels, *record.Label)
			wanted[record.Label.Tick] = true
		}
	}
	for record, err := range r.Records() {
		must(t, err)
		if record.Tick != nil && wanted[record.Tick.Index] {
			about[record.Tick.Index] = append([]float64(nil), record.Tick.Phi...)
		}
	}
	return labels, about
}

func names(t *testing.T, dir string) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	there := make(map[string]bool)
	for _, e := range entries {
		there[e.Name()] = true
	}
	return there
}

func TestAThinnedLogKeepsEveryLabelAndWhatItIsAboutAndStillReplays(t *testing.T) {
	dir := t.TempDir()
	path := agedLog(t, dir, "run", 2000, 50, 1)
	labels, about := contents(t, path)
	before, err := os.Stat(path)
	must(t, err)
	room, err := MakeRoom(dir, Limits{Keep: 1})
	must(t, err)
	if len(room.Thinned) != 1 || len(room.Removed) != 0 {
		t.Fatalf("found %+v", room)
	}
	after, err := os.Stat(path)
	must(t, err)
	t.Logf("%d to %d bytes, %d labels", before.Size(), after.Size(), len(labels))
	if after.Size() != room.Held || after.Size() > before.Size()/3 || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("%d to %d bytes, %d held, changed %v and %v", before.Size(), after.Size(), room.Held, before.ModTime(), after.ModTime())
	}
	labelsNow, aboutNow := contents(t, path)
	if len(labels) != 40 || len(labelsNow) != len(labels) || len(aboutNow) != len(about) {
		t.Fatalf("%d of %d labels, %d of %d ticks that they are about", len(labelsNow), len(labels), len(aboutNow), len(about))
	}
	for i := range labels {
		if labels[i] != labelsNow[i] {
			t.Errorf("label %d changed: %+v, was %+v", i, labelsNow[i], labels[i])
		}
	}
	for index, phi := range about {
		if got := aboutNow[index]; len(got) != len(phi) || got[0] != phi[0] || got[len(phi)-1] != phi[len(phi)-1] {
			t.Errorf("the features of tick %d changed", index)
		}
	}
	r := open(t, path)
	if !r.Metadata().Thinned() || r.Cut() != nil || r.Metadata().Extra["task"] == "" {
		t.Errorf("metadata %+v, cut %v", r.Metadata().Extra, r.Cut())
	}
	result, err := Verify(r)
	must(t, err)
	if !result.OK() || result.Summary.Dropped == 0 {
		t.Errorf("verified %d, differing %d: %+v", result.Verified, result.Differing, result.First)
	}
	again, err := MakeRoom(dir, Limits{Keep: 1})
	must(t, err)
	if len(again.Thinned)+len(again.Removed) != 0 {
		t.Errorf("a second time: %+v", again)
	}
}

func TestReplayedLogsGoFirstAndTheOldestOfThem(t *testing.T) {
	dir := t.TempDir()
	agedLog(t, dir, "a-unreplayed", 300, 50, 9)
	b := agedLog(t, dir, "b-replayed", 300, 50, 8)
	c := agedLog(t, dir, "c-replayed", 300, 50, 7)
	must(t, errors.Join(MarkReplayed(b), MarkReplayed(c)))
	held := int64(0)
	for _, log := range mustList(t, dir) {
		held += log.size
	}
	room, err := MakeRoom(dir, Limits{Keep: held - 1})
	must(t, err)
	if len(room.Removed) != 1 || room.Removed[0] != "b-replayed.mcap" || len(room.Thinned) != 0 {
		t.Errorf("found %+v", room)
	}
	if there := names(t, dir); there["b-replayed.mcap.replayed"] || !there["c-replayed.mcap.replayed"] {
		t.Errorf("marks: %v", there)
	}
}

func mustList(t *testing.T, dir string) []logFile {
	t.Helper()
	logs, err := listLogs(dir)
	must(t, err)
	return logs
}

func TestNoLabelThatNobodyReplayedIsEverRemovedWhateverTheLimits(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		dir := t.TempDir()
		unreplayed := 0
		for i := range 6 {
			every := []uint64{0, 30}[rng.IntN(2)]
			path := agedLog(t, dir, string(rune('a'+i)), 60+rng.Uint64N(200), every, i)
			if rng.IntN(2) == 0 {
				must(t, MarkReplayed(path))
				continue
			}
			labels, _ := contents(t, path)
			unreplayed += len(labels)
		}
		free := rng.Int64N(200_000)
		_, err := MakeRoom(dir, Limits{Keep: 1 + rng.Int64N(300_000), MinFree: 100_000, Free: func(string) (int64, error) { return free, nil }})
		if (free < 100_000) != errors.Is(err, ErrNoRoom) {
			t.Errorf("with %d bytes free: %v", free, err)
		}
		left := 0
		for _, log := range mustList(t, dir) {
			if !Replayed(log.path) {
				labels, _ := contents(t, log.path)
				left += len(labels)
			}
		}
		if left != unreplayed {
			t.Errorf("%d labels that nobody replayed, %d left", unreplayed, left)
		}
	}
}

func TestALogWithoutLabelsIsRemovedAndOneInUseAndADamagedOneAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	agedLog(t, dir, "silent", 300, 0, 9)
	damaged := agedLog(t, dir, "damaged", 300, 30, 8)
	data, err := os.ReadFile(damaged)
	must(t, err)
	for i := len(data) / 2; i < len(data)/2+1000; i++ {
		data[i] ^= 0x55
	}
	must(t, os.WriteFile(damaged, data, 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "foreign.mcap"), []byte("not a log"), 0o600))
	live, err := Create(filepath.Join(dir, "live.mcap"), testMetadata(testShape), Options{})
	must(t, err)
	for i := range uint64(100) {
		must(t, live.WriteTick(randomTick(testShape, i)))
	}
	room, err := MakeRoom(dir, Limits{Keep: 1})
	must(t, err)
	if len(room.Removed) != 1 || room.Removed[0] != "silent.mcap" || len(room.Spared) != 2 || len(room.Thinned) != 0 {
		t.Errorf("found %+v", room)
	}
	if now, err := os.ReadFile(damaged); err != nil || string(now) != string(data) {
		t.Errorf("the damaged log was touched: %v", err)
	}
	must(t, live.Close())
	if r := open(t, filepath.Join(dir, "live.mcap")); r.Cut() != nil {
		t.Errorf("the live log: %v", r.Cut())
	}
}

func TestAMarkDoesNotHoldForALogThatGrew(t *testing.T) {
	path := agedLog(t, t.TempDir(), "run", 20, 0, 1)
	if Replayed(path) {
		t.Error("replayed from the start")
	}
	must(t, MarkReplayed(path))
	if !Replayed(path) {
		t.Error("the mark does not hold")
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.Write([]byte{0})
	must(t, errors.Join(err, f.Close()))
	if Replayed(path) {
		t.Error("the mark holds for more than was replayed")
	}
}

func TestWithinItsLimitsNothingIsTouchedAndAFolderThatIsNotThereIsEmpty(t *testing.T) {
	dir := t.TempDir()
	must(t, MarkReplayed(agedLog(t, dir, "run", 20, 5, 1)))
	room, err := MakeRoom(dir, Limits{Keep: 1 << 40, MinFree: 5, Free: func(string) (int64, error) { return 5, nil }})
	if err != nil || len(room.Removed)+len(room.Thinned) != 0 {
		t.Errorf("found %+v, %v", room, err)
	}
	if room, err := MakeRoom(filepath.Join(dir, "none"), Limits{Keep: 1}); err != nil || room.Held != 0 {
		t.Errorf("found %+v, %v", room, err)
	}
	broken := errors.New("no such device")
	if _, err := MakeRoom(dir, Limits{MinFree: 5, Free: func(string) (int64, error) { return 0, broken }}); !errors.Is(err, broken) {
		t.Errorf("found %v", err)
	}
}

func TestWhatAnInterruptedThinningLeftIsRemovedAndWhatIsBeingThinnedIsNot(t *testing.T) {
	dir := t.TempDir()
	leave := func(name string) string {
		path := filepath.Join(dir, name+".mcap.thinning")
		must(t, os.WriteFile(path, make([]byte, 1000), 0o600))
		return path
	}
	agedLog(t, dir, "run", 20, 5, 1)
	beside, alone := leave("run"), leave("gone")
	live, err := os.Open(agedLog(t, dir, "live", 20, 5, 1))
	must(t, err)
	must(t, lock(live))
	underWay := leave("live")
	_, err = MakeRoom(dir, Limits{})
	must(t, err)
	if left := names(t, dir); left[filepath.Base(beside)] || left[filepath.Base(alone)] || !left[filepath.Base(underWay)] || !left["run.mcap"] {
		t.Errorf("left: %v", left)
	}
	must(t, live.Close())
	_, err = MakeRoom(dir, Limits{})
	must(t, err)
	if names(t, dir)[filepath.Base(underWay)] {
		t.Error("what nobody thins any more is still there")
	}
}

func TestOnASmallDiskOldLogsMakeRoomUntilThereIsNone(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("mounting a small disk takes root: %v", err)
	}
	defer func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	old := agedLog(t, dir, "old", 1500, 50, 3)
	agedLog(t, dir, "new", 1500, 50, 2)
	must(t, MarkReplayed(old))
	must(t, os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 1<<20), 0o600))
	room, err := MakeRoom(dir, Limits{MinFree: 2500 << 10})
	if err != nil || len(room.Removed) != 1 || len(room.Thinned) != 1 || room.Free < 2500<<10 {
		t.Errorf("found %+v, %v", room, err)
	}
	if _, err := MakeRoom(dir, Limits{MinFree: 8 << 20}); !errors.Is(err, ErrNoRoom) {
		t.Errorf("more than the disk has: %v", err)
	}
	if labels, about := contents(t, filepath.Join(dir, "new.mcap")); len(labels) != 30 || len(about) != 30 {
		t.Errorf("%d labels about %d ticks are left", len(labels), len(about))
	}
}
