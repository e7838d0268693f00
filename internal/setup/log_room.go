package setup

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"optibfm/configs"
	"optibfm/flightlog"
)

// makeRoom makes room for the log of a run and says in words what that cost.
// With an error there is none, and the run must not start.
func makeRoom(l configs.Log) (said []string, err error) {
	done, amiss, err := TidyLogs(l, 0)
	return append(done, amiss...), err
}

// TidyLogs makes room, but begins no log after patience; 0 is flightlog's own.
// It says in words what it did, and what it could not do.
func TidyLogs(l configs.Log, patience time.Duration) (done, amiss []string, err error) {
	room, err := flightlog.MakeRoom(l.Dir, flightlog.Limits{Keep: int64(l.KeepGB * 1e9), MinFree: int64(l.MinFreeGB * 1e9), Patience: patience})
	if len(room.Removed) > 0 {
		done = append(done, "log.keep_gb, log.min_free_gb: removed, as replayed or without a label: "+strings.Join(room.Removed, ", "))
	}
	if len(room.Thinned) > 0 {
		done = append(done, "log.keep_gb, log.min_free_gb: thinned to the labels and what they are about: "+strings.Join(room.Thinned, ", "))
	}
	for _, log := range room.Spared {
		amiss = append(amiss, sparedText(l.Dir, log))
	}
	if held := float64(room.Held) / 1e9; l.KeepGB > 0 && held > l.KeepGB {
		amiss = append(amiss, fmt.Sprintf("log.keep_gb: the labels of logs that nobody has replayed, and the log of the run, take %.2f GB: copy the logs, then `optibfm log release`", held))
	}
	if err != nil {
		err = fmt.Errorf("log.min_free_gb: %w", err)
	}
	return done, amiss, err
}

// sparedText says why a log was left alone, and what to do about it.
func sparedText(dir string, log flightlog.Spared) string {
	if errors.Is(log.Err, flightlog.ErrDamaged) {
		return DamageError("log.dir", filepath.Join(dir, log.Name), []error{log.Err}).Error() + ", then delete it"
	}
	return fmt.Sprintf("log.dir: %s was left alone: %v", log.Name, log.Err)
}

const (
	TidySeldom  = time.Hour
	TidyAtMost  = 5 * time.Second // then no other log is begun
	TidyLastLog = 2 * time.Second // at the end of a run, for the one that is being thinned
)
