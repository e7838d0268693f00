package review

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"optibfm/flightlog"
	"optibfm/internal/plaintext"
)

// Info prints a summary of a log and whether the log is complete.
func Info(out io.Writer, path string) error {
	return withLog(path, func(r *flightlog.Reader) error {
		damage, err := printInfo(out, path, r)
		return errors.Join(err, damageError("log info", path, damage))
	})
}

func printInfo(out io.Writer, path string, r *flightlog.Reader) (damage []error, err error) {
	s, damage, err := flightlog.Summarise(r)
	if err != nil {
		return damage, err
	}
	m := r.Metadata()
	fmt.Fprintf(out, "%s, %s\n", path, plaintext.Bytes(r.Size()))
	row(out, "state", "%s", stateText(r.Cut(), damage))
	row(out, "program", "%s, model %s", cmp.Or(m.Program, "unknown"), plaintext.ShortHash(m.ModelHash))
	row(out, "robot", "%s: %d observations, %d actions, d = %d, period %v", cmp.Or(m.Robot.Name, "unknown"),
		m.Shape.Obs, m.Shape.Action, m.Shape.Latent, m.Robot.Period)
	if m.Control.Strategy == "" {
		row(out, "control", "unknown: the log is damaged")
	} else {
		row(out, "control", "%s, kappa %g, lambda %g, rho %g",
			m.Control.Strategy, m.Control.Gate.Kappa, m.Control.Lambda, m.Control.Rho)
	}
	for i, grant := range strings.Split(cmp.Or(m.Posture, "unknown"), "\n") {
		row(out, []string{"posture", ""}[min(i, 1)], "%s", grant)
	}
	row(out, "started", "%s", time.Unix(0, m.Clock.WallNS).UTC().Format("2006-01-02 15:04:05 UTC"))
	for _, key := range slices.Sorted(maps.Keys(m.Extra)) {
		if m.Extra[key] != "" { // only simulators have a task
			row(out, key, "%s", m.Extra[key])
		}
	}
	printPictures(out, r)
	fmt.Fprintln(out)
	printSummary(out, s)
	printRecovery(out, path, r.Cut(), damage)
	return damage, nil
}

// printPictures counts the pictures beside a log. Damaged ones are not an error.
func printPictures(out io.Writer, r *flightlog.Reader) {
	n, bytes := uint64(0), int64(0)
	var problems []error
	for p, err := range r.Pictures() {
		if err != nil {
			problems = append(problems, err)
			continue
		}
		n++
		bytes += int64(len(p.JPEG))
	}
	if n > 0 || len(problems) > 0 {
		row(out, "pictures", "%s, %s", flightlog.Grouped(n), plaintext.Bytes(bytes))
	}
	if len(problems) > 0 {
		row(out, "", "not all are readable: %s", damageText(problems))
	}
}

// Cat prints the messages of a log as JSON, one per line: those of a topic, or all if topic is
// empty. It reports damaged places on warnings and skips them.
func Cat(out, warnings io.Writer, path, topic string) error {
	if topic != "" && !slices.Contains(flightlog.Topics(), topic) {
		return fmt.Errorf("log cat: --topic: unknown (%s); use one of %s",
			topic, strings.Join(flightlog.Topics(), ", "))
	}
	return withLog(path, func(r *flightlog.Reader) error {
		damage, err := printMessages(out, warnings, r, topic)
		return errors.Join(err, damageError("log cat", path, damage))
	})
}

func printMessages(out, warnings io.Writer, r *flightlog.Reader, topic string) (damage []error, err error) {
	buffered := bufio.NewWriter(out)
	encoder := json.NewEncoder(buffered)
	for record, err := range r.Records() {
		if errors.Is(err, flightlog.ErrDamaged) {
			fmt.Fprintln(warnings, "log cat:", err)
			damage = append(damage, err)
			continue
		}
		if err != nil {
			return damage, err
		}
		if topic != "" && record.Topic != topic {
			continue
		}
		if err := encoder.Encode(record); err != nil {
			return damage, err
		}
	}
	return damage, buffered.Flush()
}

// Recover copies the readable records of a log to a new file and prints a count per topic. The
// default of target is the name of the log with -recovered.
func Recover(out io.Writer, path, target string) error {
	if target == "" {
		target = strings.TrimSuffix(path, filepath.Ext(path)) + "-recovered.mcap"
	}
	saved, err := flightlog.Recover(path, target)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s, %s from %s\n", target, plaintext.Bytes(saved.To), plaintext.Bytes(saved.From))
	row(out, "input", "%s", stateText(saved.Cut, saved.Damage))
	for _, topic := range flightlog.Topics() {
		if n := saved.Messages[topic]; n > 0 {
			row(out, topic, "%s", flightlog.Grouped(n))
		}
	}
	return nil
}

// Release marks logs, so that a run may remove them. It reports a damaged log, or a file that is
// not a log, and continues with the next one. Pictures need no mark.
func Release(paths []string) error {
	var errs []error
	for _, path := range paths {
		if flightlog.HoldsPictures(path) {
			continue
		}
		errs = append(errs, withLog(path, func(r *flightlog.Reader) error {
			if err := damageError("log release", path, r.Damage()); err != nil {
				return err
			}
			if err := flightlog.MarkReplayed(path); err != nil {
				return fmt.Errorf("log release: %w", err)
			}
			return nil
		}))
	}
	return errors.Join(errs...)
}
