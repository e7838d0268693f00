package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"optibfm/flightlog"
	"optibfm/flightlog/report"
	"optibfm/internal/plaintext"
)

// writeReport makes the page of a log. The page is written beside its place and
// then moved there: what was there before stays until it is whole.
func writeReport(out io.Writer, page, log string, r *flightlog.Reader) error {
	file, err := os.CreateTemp(filepath.Dir(page), ".report-*.html")
	if err != nil {
		return fmt.Errorf("replay: --html: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // fails where it was moved
	made, err := report.Write(file, r, log)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(file.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(file.Name(), page)
	}
	if err != nil {
		return fmt.Errorf("replay: --html: %w", err)
	}
	fmt.Fprintf(out, "%s, %s\n", page, plaintext.Bytes(made.Bytes))
	if made.Unverified != nil {
		row(out, "verified", "NO: %v", made.Unverified)
		return fmt.Errorf("replay: %w", made.Unverified)
	}
	row(out, "verified", "%s", verdictText(made.Replay))
	return replayError(log, made.Replay)
}
