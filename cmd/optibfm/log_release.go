package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"optibfm/flightlog"
)

// newLogRelease makes `optibfm log release`.
func newLogRelease() *cobra.Command {
	return &cobra.Command{
		Use:   "release FILE...",
		Short: "Mark logs that were copied elsewhere, so that runs may remove them",
		Long: `Mark logs as replayed. A run removes such logs first where log.keep_gb or
log.min_free_gb asks for room; it never removes the labels of others. A log that
"optibfm replay" verified is marked already, on the computer where that ran. A
damaged log is not marked: copy what can be read, then delete it yourself.`,
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

// releaseLog marks a file if it is a log that is not damaged.
func releaseLog(path string) error {
	return withLog(path, func(r *flightlog.Reader) error {
		if err := damageError("log release", path, r.Damage()); err != nil {
			return err
		}
		if err := flightlog.MarkReplayed(path); err != nil {
			return fmt.Errorf("log release: %w", err)
		}
		return nil
	})
}
