package review

import (
	"errors"
	"fmt"
	"strings"

	"optibfm/flightlog"
	"optibfm/internal/shell"
)

// withLog opens a log, calls f and closes the log.
func withLog(path string, f func(r *flightlog.Reader) error) error {
	r, err := flightlog.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f(r), r.Close())
}

// damageError returns the error of a command that read a damaged log, nil without damage.
func damageError(command, path string, damage []error) error {
	if len(damage) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s: %w (%s); copy the readable part: %s",
		command, path, flightlog.ErrDamaged, damageText(damage), recoverCommand(path))
}

// recoverCommand is the command that copies the readable records of a log.
func recoverCommand(path string) string {
	return shell.ThisProgram().Command("log", "recover", shell.Operand(path))
}

// damageText lists the first damaged places.
func damageText(damage []error) string {
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
