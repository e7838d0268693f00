package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/flightlog"
)

// newLogRelease makes `optibfm log release`.
func newLogRelease() *cobra.Command {
	return &cobra.Command{
		Use:   "release FILE...",
		Short: "Say that logs were copied elsewhere, so that they may make room for others",
		Long: `Mark logs as replayed. A run removes such logs first where log.keep_gb or
log.min_free_gb asks for room; the labels of others it never removes. A log that
"optibfm replay" verified is marked already, on the computer where that ran.`,
		Example: "  scp robot:/var/log/optibfm/*.mcap . && ssh robot 'optibfm log release /var/log/optibfm/*.mcap'",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			var errs []error
			for _, path := range args {
				errs = append(errs, releaseLog(path))
			}
			return errors.Join(errs...)
		},
	}
}

// releaseLog marks what is a log and no other file.
func releaseLog(path string) error {
	return withLog(path, func(*flightlog.Reader) error {
		if err := flightlog.MarkReplayed(path); err != nil {
			return fmt.Errorf("log release: %w", err)
		}
		return nil
	})
}

// makeRoom makes room for the log of a run and says in words what that cost.
// With an error there is none, and the run must not start.
func makeRoom(l configs.Log) (said []string, err error) {
	room, err := flightlog.MakeRoom(l.Dir, flightlog.Limits{Keep: int64(l.KeepGB * 1e9), MinFree: int64(l.MinFreeGB * 1e9)})
	if len(room.Removed) > 0 {
		said = append(said, "log.keep_gb, log.min_free_gb: removed, as replayed or without a label: "+strings.Join(room.Removed, ", "))
	}
	if len(room.Thinned) > 0 {
		said = append(said, "log.keep_gb, log.min_free_gb: thinned to the labels and what they are about: "+strings.Join(room.Thinned, ", "))
	}
	if len(room.Spared) > 0 {
		said = append(said, "log.dir: left alone, as they cannot be read or the disk is too full to thin them: "+strings.Join(room.Spared, ", "))
	}
	if held := float64(room.Held) / 1e9; l.KeepGB > 0 && held > l.KeepGB {
		said = append(said, fmt.Sprintf("log.keep_gb: the labels of logs that nobody has replayed take %.2f GB: copy them, then `optibfm log release`", held))
	}
	if err != nil {
		return said, fmt.Errorf("log.min_free_gb: %w", err)
	}
	return said, nil
}
