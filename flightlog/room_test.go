package flightlog

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// fakeLog writes a file of the given size and age. MakeRoom does not read logs.
func fakeLog(t *testing.T, dir, name string, size, days int) string {
	t.Helper()
	path := filepath.Join(dir, name+".mcap")
	content := make([]byte, size)
	copy(content, keySynchronised)
	fatal.If(t, os.WriteFile(path, content, 0o600))
	when := time.Now().AddDate(0, 0, -days)
	fatal.If(t, os.Chtimes(path, when, when))
	return path
}

func names(t *testing.T, dir string) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir(dir)
	fatal.If(t, err)
	found := make(map[string]bool)
	for _, e := range entries {
		found[e.Name()] = true
	}
	return found
}

func TestMakeRoom_RemovesTheOldestVerifiedLogFirst(t *testing.T) {
	dir := t.TempDir()
	fakeLog(t, dir, "a-unverified", 100, 9)
	fatal.If(t, MarkReplayed(fakeLog(t, dir, "c-verified", 100, 7)))
	fatal.If(t, MarkReplayed(fakeLog(t, dir, "b-verified", 100, 8)))
	room, err := MakeRoom(dir, Limits{Keep: 299})
	fatal.If(t, err)
	if !slices.Equal(room.Removed, []string{"b-verified.mcap"}) || room.Held != 200 {
		t.Errorf("got %+v", room)
	}
	left := names(t, dir)
	if left["b-verified.mcap.replayed"] || !left["c-verified.mcap.replayed"] || !left["a-unverified.mcap"] {
		t.Errorf("files: %v", left)
	}
}

func TestMakeRoom_RemovesNoUnverifiedLog(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		dir := t.TempDir()
		unverified := make(map[string]bool)
		for i := range 6 {
			path := fakeLog(t, dir, string(rune('a'+i)), 1+rng.IntN(1000), i)
			if rng.IntN(2) == 0 {
				fatal.If(t, MarkReplayed(path))
			} else {
				unverified[filepath.Base(path)] = true
			}
		}
		free := rng.Int64N(200)
		limits := Limits{Keep: 1 + rng.Int64N(3000), MinFree: 100}
		limits.Free = func(string) (int64, error) { return free, nil }
		if _, err := MakeRoom(dir, limits); (free < 100) != errors.Is(err, ErrNoRoom) {
			t.Errorf("with %d bytes free: %v", free, err)
		}
		left := names(t, dir)
		for name := range unverified {
			if !left[name] {
				t.Errorf("%s is removed, limits %+v", name, limits)
			}
		}
	}
}

func TestMakeRoom_RemovesPicturesBeforeAnyLog(t *testing.T) {
	for _, c := range []struct {
		keep     int64
		age      time.Duration
		pictures int // removed
		logs     int
	}{
		{keep: 700},
		{keep: 650, pictures: 1},
		{keep: 400, pictures: 3},
		{keep: 399, pictures: 4},
		{keep: 299, pictures: 4, logs: 1},
		{keep: 100, pictures: 4, logs: 2},
		{keep: 99, pictures: 4}, // the logs would not suffice
		{keep: 700, age: 36 * time.Hour, pictures: 2},
		{age: 36 * time.Hour, pictures: 2},
		{age: time.Hour, pictures: 4},
	} {
		dir := t.TempDir()
		fatal.If(t, MarkReplayed(fakeLog(t, dir, "a", 100, 9)))
		fatal.If(t, MarkReplayed(fakeLog(t, dir, "b", 100, 8)))
		fakeLog(t, dir, "unverified", 100, 7)
		fakeLog(t, dir, "a.view-001", 100, 4)
		fakeLog(t, dir, "a.view-002", 100, 3)
		fakeLog(t, dir, "gone.view-001", 100, 1)
		fakeLog(t, dir, "unverified.view-1000", 100, 1)
		room, err := MakeRoom(dir, Limits{Keep: c.keep, Pictures: c.age, Synced: func() bool { return true }})
		fatal.If(t, err)
		if len(room.Pictures) != c.pictures || len(room.Removed) != c.logs || !names(t, dir)["unverified.mcap"] ||
			room.Held != int64(700-100*(c.pictures+c.logs)) {
			t.Errorf("%+v: %+v", c, room)
		}
	}
}

func TestMakeRoom_RemovesNothingThatDoesNotSuffice(t *testing.T) {
	for _, l := range []Limits{{Keep: 99}, {MinFree: 301}, {Keep: 1, MinFree: 100}, {Keep: 299, MinFree: 301}} {
		dir := t.TempDir()
		fatal.If(t, MarkReplayed(fakeLog(t, dir, "a", 100, 9)))
		fatal.If(t, MarkReplayed(fakeLog(t, dir, "b", 100, 8)))
		fakeLog(t, dir, "unmarked", 100, 7)
		l.Free = func(dir string) (int64, error) {
			return 400 - 100*int64(len(names(t, dir))-len(marks(t, dir))), nil
		}
		room, err := MakeRoom(dir, l)
		if noRoom := l.MinFree > 300; noRoom != errors.Is(err, ErrNoRoom) || len(room.Removed) > 0 || room.Held != 300 {
			t.Errorf("%+v: %+v, %v", l, room, err)
		}
	}
}

// marks returns the files that mark logs.
func marks(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.replayed"))
	fatal.If(t, err)
	return found
}

func TestReplayed_IgnoresMarksOfEarlierPrograms(t *testing.T) {
	path := fakeLog(t, t.TempDir(), "run", 20, 1)
	fatal.If(t, os.WriteFile(markPath(path), []byte("20 bytes\n"), 0o600))
	if Replayed(path) {
		t.Error("a mark that replay gave without asking counts")
	}
}

func TestMakeRoom_RemovesNothingByAgeWithoutAKnownAge(t *testing.T) {
	for _, then := range []bool{false, true} {
		for _, now := range []bool{false, true} {
			w, path := create(t, testMetadata(testShape), Options{NoSync: true})
			pictures := w.Pictures(0)
			pictures.synced = func() bool { return then }
			fatal.If(t, pictures.Write(testPicture(0)))
			fatal.If(t, errors.Join(pictures.Close(), w.Close()))
			view := strings.TrimSuffix(path, ".mcap") + ".view-001.mcap"
			old := time.Unix(1000, 0) // as a clock without a battery
			fatal.If(t, os.Chtimes(view, old, old))
			room, err := MakeRoom(filepath.Dir(path), Limits{Pictures: time.Hour, Synced: func() bool { return now }})
			fatal.If(t, err)
			if known := then && now; known != (len(room.Pictures) == 1) || known != (room.Undated == 0) {
				t.Errorf("synchronised when recorded %v, now %v: %+v", then, now, room)
			}
			room, err = MakeRoom(filepath.Dir(path), Limits{Keep: 1})
			if _, gone := os.Stat(view); err != nil || !errors.Is(gone, os.ErrNotExist) {
				t.Errorf("pictures stay although space is needed: %+v, %v", room, err)
			}
		}
	}
}

func TestClockSynchronised_IsFalseAfterAJump(t *testing.T) {
	was := wallOffset
	defer func() { wallOffset = was }()
	wallOffset -= int64(time.Hour)
	if clockSynchronised() {
		t.Error("the age of files counts although the clock jumped by an hour")
	}
}

func TestMakeRoom_LeavesAnOpenLog(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "live.mcap")
	live, err := Create(path, testMetadata(testShape), Options{NoSync: true})
	fatal.If(t, err)
	fatal.If(t, MarkReplayed(path))
	pictures := live.Pictures(0)
	fatal.If(t, pictures.Write(testPicture(0)))
	room, err := MakeRoom(dir, Limits{Keep: 1, Pictures: time.Nanosecond, Synced: func() bool { return true }})
	fatal.If(t, err)
	left := names(t, dir)
	if len(room.Removed)+len(room.Pictures) > 0 || !left["live.mcap"] || !left["live.view-001.mcap"] {
		t.Errorf("got %+v", room)
	}
	fatal.If(t, pictures.Close())
	fatal.If(t, live.Close())
	fatal.If(t, MarkReplayed(path)) // Close made it longer
	room, err = MakeRoom(dir, Limits{Keep: 1})
	if err != nil || len(room.Removed)+len(room.Pictures) != 2 || room.Held != 0 {
		t.Errorf("after Close: %+v, %v", room, err)
	}
}

func TestReplayed_IsFalseAfterTheLogGrew(t *testing.T) {
	path := fakeLog(t, t.TempDir(), "run", 20, 1)
	if Replayed(path) {
		t.Error("verified without a mark")
	}
	fatal.If(t, MarkReplayed(path))
	if !Replayed(path) {
		t.Error("not verified after MarkReplayed")
	}
	fatal.If(t, os.WriteFile(path, make([]byte, 21), 0o600))
	if Replayed(path) {
		t.Error("verified although the log grew")
	}
}

func TestMakeRoom_ChangesNothingWithinTheLimits(t *testing.T) {
	dir := t.TempDir()
	fatal.If(t, MarkReplayed(fakeLog(t, dir, "run", 20, 1)))
	room, err := MakeRoom(dir, Limits{Keep: 20, MinFree: 5, Free: func(string) (int64, error) { return 5, nil }})
	if err != nil || len(room.Removed) > 0 {
		t.Errorf("got %+v, %v", room, err)
	}
	if room, err := MakeRoom(filepath.Join(dir, "none"), Limits{Keep: 1}); err != nil || room.Held != 0 {
		t.Errorf("a missing folder: %+v, %v", room, err)
	}
	broken := errors.New("no such device")
	failing := Limits{MinFree: 5, Free: func(string) (int64, error) { return 0, broken }}
	errtest.Is(t, errtest.Of(MakeRoom(dir, failing)), broken)
}

func TestMakeRoom_FreesASmallDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("mounting a small disk takes root: %v", err)
	}
	defer func() { fatal.If(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	fatal.If(t, MarkReplayed(fakeLog(t, dir, "old", 1<<20, 3)))
	fakeLog(t, dir, "new", 1<<20, 2)
	room, err := MakeRoom(dir, Limits{MinFree: 2500 << 10})
	if err != nil || !slices.Equal(room.Removed, []string{"old.mcap"}) || room.Free < 2500<<10 {
		t.Errorf("got %+v, %v", room, err)
	}
	errtest.Is(t, errtest.Of(MakeRoom(dir, Limits{MinFree: 8 << 20})), ErrNoRoom, "more than the disk holds")
}
