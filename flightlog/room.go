package flightlog

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/internal/safefile"
)

// ErrNoRoom means that MakeRoom cannot free enough disk space.
var ErrNoRoom = errors.New("disk too full for a run")

// Limits bound the disk space of logs and their pictures.
type Limits struct {
	Keep     int64         // bytes of logs and pictures in the folder; 0: no limit
	MinFree  int64         // bytes free on the disk of the folder; 0: no limit
	Pictures time.Duration // since the last picture of a file, see MakeRoom; 0: no limit

	Synced func() bool // the wall clock is synchronised and did not jump; nil: as the kernel reports
	// Free returns the free bytes on the disk of a folder; nil: FreeBytes.
	Free func(dir string) (int64, error)
}

// violated reports whether a limit is violated. It updates room.Free if MinFree is set.
func (l *Limits) violated(dir string, room *Room) (bool, error) {
	tooMuch := l.Keep != 0 && room.Held > l.Keep
	if l.MinFree == 0 {
		return tooMuch, nil
	}
	var err error
	room.Free, err = l.Free(dir)
	return tooMuch || room.Free < l.MinFree, err
}

// Room is the result of MakeRoom.
type Room struct {
	Removed  []string // names of the removed logs
	Pictures []string // names of the removed files of pictures
	Undated  int      // files of pictures that appear too old, and whose age is not known
	Held     int64    // bytes of the remaining logs and pictures
	Free     int64    // free bytes on the disk, if MinFree is set
}

// MakeRoom removes outdated pictures from a folder. Their age is known only if the wall clock is
// synchronised now and was synchronised at recording: a computer without a battery begins in the
// past. If the other limits do not hold, MakeRoom removes further pictures and then marked
// logs, the oldest first, until they do. MarkReplayed marks: `optibfm replay` calls it for a
// verified log without labels of a person, `optibfm log release` for any. MakeRoom removes no other
// log, because its labels may exist nowhere else, and no file that a Writer has open.
//
// MakeRoom removes a log only if that meets the limit. If Keep cannot be met, it removes
// pictures and returns no error; compare Room.Held. If MinFree cannot be met, it removes
// only outdated pictures and returns ErrNoRoom. A missing folder counts as empty.
func MakeRoom(dir string, l Limits) (Room, error) {
	if l.Free == nil {
		l.Free = FreeBytes
	}
	if l.Synced == nil {
		l.Synced = clockSynchronised
	}
	logs, err := listLogs(dir)
	if err != nil {
		return Room{}, fmt.Errorf("flightlog: %w", err)
	}
	var room Room
	for _, log := range logs {
		room.Held += log.size
	}
	if err := room.make(dir, logs, l); err != nil {
		return room, fmt.Errorf("flightlog: %s: %w", dir, err)
	}
	return room, nil
}

func (room *Room) make(dir string, logs []logFile, l Limits) error {
	var left []logFile
	reach := int64(0) // bytes that could be removed
	for _, log := range logs {
		tooOld := log.pictures && l.Pictures > 0 && time.Since(log.changed) > l.Pictures
		if tooOld && !(l.Synced() && log.dated()) {
			tooOld = false
			room.Undated++
		}
		if removed, err := room.remove(log, tooOld); removed || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		if log.removable() {
			left = append(left, log)
			reach += log.size
		}
	}
	if violated, err := l.violated(dir, room); !violated || err != nil {
		return err
	}
	enough := room.Held-reach <= l.Keep
	if room.Free+reach < l.MinFree {
		return l.noRoom(room)
	}
	for _, log := range left {
		violated, err := l.violated(dir, room)
		if err != nil {
			return err
		}
		if onlyKeep := room.Free >= l.MinFree; !violated || onlyKeep && !enough && !log.pictures {
			break
		}
		if _, err := room.remove(log, true); err != nil {
			return err
		}
	}
	if violated, err := l.violated(dir, room); !violated || err != nil || room.Free >= l.MinFree {
		return err
	}
	return l.noRoom(room)
}

func (l *Limits) noRoom(room *Room) error {
	return fmt.Errorf("%w (%.2f GB free, minimum %.2f GB); copy the logs and run `optibfm log release`, "+
		"or delete other files", ErrNoRoom, gigabytes(room.Free), gigabytes(l.MinFree))
}

// remove removes a file if wanted, and counts it.
func (room *Room) remove(log logFile, wanted bool) (removed bool, err error) {
	if !wanted {
		return false, nil
	}
	removed, err = log.remove()
	if !removed {
		return false, err
	}
	room.Held -= log.size
	names := &room.Removed
	if log.pictures {
		names = &room.Pictures
	}
	*names = append(*names, filepath.Base(log.path))
	return true, err
}

func gigabytes(n int64) float64 { return float64(n) / 1e9 }

// open opens pictures or a marked log with its lock, and returns nil for any other file and for one
// that a Writer has open.
func (l *logFile) open() (*os.File, error) {
	f, _, err := safefile.Open(l.path)
	if errors.Is(err, os.ErrNotExist) || l.pictures && errors.Is(err, os.ErrPermission) {
		return nil, nil // another process removed it, or it is another user's
	}
	if err != nil {
		return nil, err
	}
	if lock(f) != nil || !l.pictures && !Replayed(l.path) {
		_ = f.Close() // releases the lock
		return nil, nil
	}
	return f, nil
}

// removable reports whether remove would remove the file.
func (l *logFile) removable() bool {
	f, err := l.open()
	if f != nil {
		_ = f.Close()
	}
	return f != nil && err == nil
}

// remove removes pictures, or a marked log and its mark, unless a Writer has the file open.
func (l *logFile) remove() (removed bool, err error) {
	f, err := l.open()
	if f == nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // releases the lock
	if err := os.Remove(l.path); err != nil {
		return false, err
	}
	if l.pictures {
		return true, nil
	}
	if err := os.Remove(markPath(l.path)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return true, err
	}
	return true, nil
}

// lock takes the lock of a log. Closing the descriptor releases it.
func lock(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("another process has locked the log: %w", err)
		}
		return fmt.Errorf("flock: %w", err)
	}
	return nil
}

// FreeBytes returns the bytes on the disk of a folder that unprivileged users can use.
func FreeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("statfs: %w", err)
	}
	return int64(min(s.Bavail, uint64(1)<<62/uint64(s.Bsize))) * s.Bsize, nil
}

// logFile is a log, or pictures of one, in a folder.
type logFile struct {
	path     string
	pictures bool
	size     int64
	changed  time.Time
}

// removalRank is smaller for files that are removed first: pictures.
func (l *logFile) removalRank() int {
	if l.pictures {
		return 0
	}
	return 1
}

// listLogs returns the pictures of a folder and then its logs, each the oldest first.
func listLogs(dir string) ([]logFile, error) {
	paths, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*.mcap"))
	if err != nil {
		return nil, err
	}
	var logs []logFile
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			logs = append(logs, logFile{path, HoldsPictures(path), info.Size(), info.ModTime()})
		}
	}
	slices.SortFunc(logs, func(a, b logFile) int {
		return cmp.Or(cmp.Compare(a.removalRank(), b.removalRank()), a.changed.Compare(b.changed),
			cmp.Compare(a.path, b.path))
	})
	return logs, nil
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// markPath returns the path of the file that marks a log as removable.
func markPath(path string) string { return path + ".replayed" }

// markText returns the content of the mark: the size of the log. A mark of another size does not
// count.
func markText(info os.FileInfo) string {
	return strconv.FormatInt(info.Size(), 10) + " bytes, removable\n"
}

// MarkReplayed marks a log, so that MakeRoom may remove it. Call it when the log was replayed and
// has no labels of a person, or when the operator released it.
func MarkReplayed(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.WriteFile(markPath(path), []byte(markText(info)), 0o640)
}

// Replayed reports whether MarkReplayed marked the log, at its present size.
func Replayed(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	text, err := safefile.Read(markPath(path), 1<<10)
	return err == nil && string(text) == markText(info)
}
