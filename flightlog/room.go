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
)

// ErrNoRoom is returned by MakeRoom where the disk stays too full.
var ErrNoRoom = errors.New("the disk is too full for a run: replay or copy the logs and release them (`optibfm log release`), or free space on the disk")

// errInUse is a log that a run is writing.
var errInUse = errors.New("a run is writing it")

// Limits say how much room logs may take.
type Limits struct {
	Keep     int64         // bytes of logs in the folder; 0: no limit
	MinFree  int64         // bytes free on its disk; 0: none are asked for
	Patience time.Duration // no log is thinned after so long; 0: 30 s

	// Free returns the bytes free on the disk of a folder; nil: FreeBytes.
	Free func(dir string) (int64, error)
}

// Room says what MakeRoom did.
type Room struct {
	Removed []string // names of logs that were replayed, or held no label
	Thinned []string // names of logs that lost their ticks and kept their labels
	Spared  []Spared // logs that were left alone
	Held    int64    // bytes of the logs that are left
	Free    int64    // bytes free on the disk, where MinFree asks for some
}

// Spared is a log that MakeRoom left alone, and the reason: it is damaged, or the
// disk is too full to thin it.
type Spared struct {
	Name string
	Err  error
}

// MakeRoom removes and thins the logs of a folder until the limits hold, in
// this order, the oldest first:
//
//  1. logs that were replayed (MarkReplayed) are removed
//  2. logs without any label are removed, and the others thinned: what is left
//     are the labels, the requests, the snapshots and the ticks that they are
//     about
//
// What a person has said and nobody has replayed is never removed. Logs that are
// being written, and those that are damaged, are left alone. Where the limit of
// Keep cannot be met, that is no error: Room.Held tells. Where MinFree cannot
// be met, the error is ErrNoRoom. A folder that is not there is empty. What was
// left where a process ended in the middle of thinning is removed in any case.
func MakeRoom(dir string, l Limits) (Room, error) {
	if l.Free == nil {
		l.Free = FreeBytes
	}
	if l.Patience <= 0 {
		l.Patience = 30 * time.Second
	}
	if err := removeUnfinished(dir); err != nil {
		return Room{}, fmt.Errorf("flightlog.MakeRoom: %w", err)
	}
	logs, err := listLogs(dir)
	if err != nil {
		return Room{}, fmt.Errorf("flightlog.MakeRoom: %w", err)
	}
	m := roomMaker{dir: dir, limits: l, until: time.Now().Add(l.Patience)}
	for _, each := range logs {
		m.room.Held += each.size
	}
	if err := m.make(logs); err != nil {
		return m.room, fmt.Errorf("flightlog.MakeRoom %s: %w", dir, err)
	}
	return m.room, nil
}

// FreeBytes returns the bytes on the disk of a folder that are free for anybody.
func FreeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("statfs: %w", err)
	}
	return int64(min(s.Bavail, uint64(1)<<62/uint64(s.Bsize))) * s.Bsize, nil
}

// logFile is a log in a folder.
type logFile struct {
	path    string
	size    int64
	changed time.Time
}

// listLogs returns the logs of a folder, the oldest first.
func listLogs(dir string) ([]logFile, error) {
	paths, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*.mcap"))
	if err != nil {
		return nil, err
	}
	var logs []logFile
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			logs = append(logs, logFile{path, info.Size(), info.ModTime()})
		}
	}
	slices.SortFunc(logs, func(a, b logFile) int {
		return cmp.Or(a.changed.Compare(b.changed), cmp.Compare(a.path, b.path))
	})
	return logs, nil
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// roomMaker is MakeRoom at work.
type roomMaker struct {
	dir    string
	limits Limits
	until  time.Time
	room   Room
}

func (m *roomMaker) make(logs []logFile) error {
	for _, each := range []func(logFile) error{m.removeReplayed, m.removeOrThin} {
		for _, log := range logs {
			if enough, err := m.enough(); enough || err != nil {
				return err
			}
			if err := m.try(log, each); err != nil {
				return err
			}
		}
	}
	if enough, err := m.enough(); enough || err != nil || m.room.Free >= m.limits.MinFree {
		return err
	}
	return fmt.Errorf("%w (%.2f GB free of at least %.2f)", ErrNoRoom, gigabytes(m.room.Free), gigabytes(m.limits.MinFree))
}

func gigabytes(n int64) float64 { return float64(n) / 1e9 }

// enough looks whether the limits hold.
func (m *roomMaker) enough() (bool, error) {
	enough := m.limits.Keep == 0 || m.room.Held <= m.limits.Keep
	if m.limits.MinFree == 0 {
		return enough, nil
	}
	var err error
	m.room.Free, err = m.limits.Free(m.dir)
	return enough && m.room.Free >= m.limits.MinFree, err
}

// try does something to a log that is still there and that nobody writes.
func (m *roomMaker) try(log logFile, do func(logFile) error) error {
	f, err := os.Open(log.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // removed before
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // which unlocks it
	if lock(f) != nil {
		return nil
	}
	return do(log)
}

// lock keeps others from changing a log; it ends with the descriptor.
func lock(f *os.File) error {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("%w (%w)", errInUse, err)
	}
	return nil
}

func (m *roomMaker) removeReplayed(log logFile) error {
	if !Replayed(log.path) {
		return nil
	}
	return m.remove(log)
}

func (m *roomMaker) remove(log logFile) error {
	if err := errors.Join(os.Remove(log.path), removeMark(log.path)); err != nil {
		return err
	}
	m.room.Held -= log.size
	m.room.Removed = append(m.room.Removed, filepath.Base(log.path))
	return nil
}

func (m *roomMaker) removeOrThin(log logFile) error {
	if time.Now().After(m.until) {
		return nil
	}
	freed, labelled, err := thin(log.path)
	switch {
	case err != nil: // it may be damaged, or the disk too full to write beside it
		m.room.Spared = append(m.room.Spared, Spared{filepath.Base(log.path), err})
		return nil
	case !labelled:
		return m.remove(log)
	case freed != 0:
		m.room.Held -= freed
		m.room.Thinned = append(m.room.Thinned, filepath.Base(log.path))
	}
	return nil
}

// markOf is the file that says that a log was replayed.
func markOf(path string) string { return path + ".replayed" }

// MarkReplayed notes beside a log that its labels are known elsewhere, so that
// MakeRoom may remove it. The mark holds for the log as it is: one that grows is
// not replayed any more.
func MarkReplayed(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.WriteFile(markOf(path), []byte(strconv.FormatInt(info.Size(), 10)+" bytes\n"), 0o644)
}

// Replayed reports whether a log is marked as replayed.
func Replayed(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	text, err := os.ReadFile(markOf(path))
	return err == nil && string(text) == strconv.FormatInt(info.Size(), 10)+" bytes\n"
}

func removeMark(path string) error {
	err := os.Remove(markOf(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
