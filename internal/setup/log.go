package setup

import (
	"errors"
	"fmt"
	"strings"

	"optibfm/flightlog"
	"optibfm/internal/shell"
)

// DamageError is the error of a command that read a damaged log; nil for any other.
func DamageError(command, path string, damage []error) error {
	if len(damage) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s: %w (%s); copy what can be read: optibfm log recover %s",
		command, path, flightlog.ErrDamaged, DamageText(damage), shell.Quote(path))
}

// DamageText names the first damaged places.
func DamageText(damage []error) string {
	const shown = 3
	var parts []string
	for _, err := range damage[:min(shown, len(damage))] {
		parts = append(parts, err.Error())
	}
	if more := len(damage) - shown; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more places", more))
	}
	return strings.Join(parts, "; ")
}

// WithLog opens a log for the time of f.
func WithLog(path string, f func(r *flightlog.Reader) error) error {
	r, err := flightlog.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f(r), r.Close())
}
