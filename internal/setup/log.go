package setup

import (
	"fmt"
	"strings"
	"time"

	"optibfm/configs"
	"optibfm/flightlog"
)

// MakeRoom removes pictures, then marked logs, above the limits of a configuration, the oldest
// first. It returns messages about the removed files and about limits that are still exceeded. An
// error means that a run must not start.
func MakeRoom(l configs.Log) (removed, exceeded []string, err error) {
	limits := flightlog.Limits{
		Keep: int64(l.KeepGB * 1e9), MinFree: int64(l.MinFreeGB * 1e9),
		Pictures: time.Duration(l.FramesDays * 24 * float64(time.Hour)),
	}
	room, err := flightlog.MakeRoom(l.Dir, limits)
	if len(room.Pictures) > 0 {
		names := strings.Join(room.Pictures, ", ")
		removed = append(removed, "log.frames_days, log.keep_gb, log.min_free_gb: removed pictures: "+names)
	}
	if len(room.Removed) > 0 {
		names := strings.Join(room.Removed, ", ")
		removed = append(removed, "log.keep_gb, log.min_free_gb: removed, as replayed or released: "+names)
	}
	if room.Undated > 0 {
		exceeded = append(exceeded, fmt.Sprintf("log.frames_days: %d files of pictures stay until space is needed: "+
			"the clock is not synchronised (`timedatectl`), jumped, or was not synchronised when they were recorded",
			room.Undated))
	}
	if held := float64(room.Held) / 1e9; l.KeepGB > 0 && held > l.KeepGB {
		exceeded = append(exceeded, fmt.Sprintf("log.keep_gb: logs that were not released, and the log of the run, "+
			"take %.2f GB; copy them, then run `optibfm log release`", held))
	}
	if err != nil {
		err = fmt.Errorf("log.min_free_gb: %w", err)
	}
	return removed, exceeded, err
}
