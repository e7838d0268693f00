package review

import (
	"errors"
	"fmt"
	"io"

	"github.com/goccy/go-yaml"

	"optibfm/configs"
	"optibfm/flightlog"
	"optibfm/flightlog/report"
	"optibfm/internal/plaintext"
	"optibfm/internal/safefile"
	"optibfm/internal/shell"
)

// ErrDiffers is wrapped by the error of Replay where the computed belief differs from the log.
var ErrDiffers = errors.New("replay: the computed belief differs from the log: " +
	"the log was changed, or this program or CPU computes differently")

// errNotCompared is the error for a log without a compared tick.
var errNotCompared = errors.New("replay: no tick could be compared: no snapshot of the belief precedes one")

// Options select what Replay prints.
type Options struct {
	WhatIf *flightlog.Params // parameters of a what-if question; nil: none
	JSON   bool              // print JSON
	Page   string            // write a page for a browser to this file, and print a verdict; "": no page
	// Label returns the data that a person needs to label a log in the page; nil: the page has no
	// labels to give.
	Label func(path string, log flightlog.Metadata) report.Labelling
}

// Replay computes the belief of a run again, compares every tick with the log and
// prints the result. It marks a log that is undamaged, agrees and has no labels of a
// person, and prints so. Its error wraps ErrDiffers or flightlog.ErrDamaged.
func Replay(out io.Writer, path string, o Options) error {
	return withLog(path, func(r *flightlog.Reader) error {
		if o.Page != "" {
			return writePage(out, path, r, o)
		}
		return replay(out, path, r, o)
	})
}

func replay(out io.Writer, path string, r *flightlog.Reader, o Options) error {
	result, err := flightlog.Verify(r)
	if err != nil && !errors.Is(err, flightlog.ErrUnverifiable) {
		return err
	}
	var answer *flightlog.Answer
	if o.WhatIf != nil && err == nil {
		a, err := flightlog.WhatIf(r, *o.WhatIf)
		if err != nil {
			return err
		}
		answer = &a
	}
	marked, text := mark(path, r, result)
	if o.JSON {
		err = printJSON(out, path, result, answer, marked)
	} else {
		printReplay(out, path, r, result, answer, text)
	}
	return errors.Join(err, replayError(path, result))
}

// mark marks a verified log without labels of a person, so that a run may remove it. text describes
// the result.
func mark(path string, r *flightlog.Reader, result flightlog.Result) (marked bool, text string) {
	if !result.OK() {
		return false, "no: the log is not verified"
	}
	if _, recovered := r.Metadata().Extra[flightlog.KeyRecovered]; recovered {
		return false, "no: it is a copy of a damaged log"
	}
	if labelledByPerson(r, result.Summary) {
		return false, "no: a person gave its labels; a run keeps it until `" +
			shell.ThisProgram().Command("log", "release", shell.Operand(path)) + "`"
	}
	if err := flightlog.MarkReplayed(path); err != nil {
		return false, fmt.Sprintf("no: %v", err)
	}
	return true, "yes: a run that needs space may remove this log"
}

// labelledByPerson reports whether a log has labels that cannot be computed again. It is true if
// the configuration does not name a simulated operator.
func labelledByPerson(r *flightlog.Reader, s flightlog.Summary) bool {
	var file struct{ Operator struct{ Source string } }
	err := yaml.Unmarshal(r.Metadata().Config, &file)
	simulated := err == nil && file.Operator.Source == configs.SourceScripted
	return !simulated && (s.Presses > 0 || len(s.Labels) > 0)
}

// replayError returns the reason why a log was not verified, nil for a log that was.
func replayError(path string, r flightlog.Result) error {
	err := damageError("replay", path, r.Damage)
	if r.First != nil {
		err = errors.Join(ErrDiffers, err)
	}
	if r.Lacks != nil {
		err = errors.Join(fmt.Errorf("replay: %w", r.Lacks), err)
	}
	if err == nil && !r.OK() {
		return errNotCompared
	}
	return err
}

// writePage writes the page of a log. An existing page stays until the new one is complete.
func writePage(out io.Writer, log string, r *flightlog.Reader, o Options) error {
	page := o.Page
	var labelling *report.Labelling
	if o.Label != nil {
		l := o.Label(log, r.Metadata())
		labelling = &l
	}
	var made report.Made
	err := safefile.Replace(page, 0o640, func(w io.Writer) (err error) {
		made, err = report.Write(w, r, log, labelling)
		return err
	})
	if err != nil {
		return fmt.Errorf("replay: --html: %w", err)
	}
	fmt.Fprintf(out, "%s, %s\n", page, plaintext.Bytes(made.Bytes))
	if made.Unverified != nil {
		row(out, "verified", "NO: %v", made.Unverified)
		return errors.Join(fmt.Errorf("replay: %w", made.Unverified), damageError("replay", log, made.Replay.Damage))
	}
	row(out, "verified", "%s", verdictText(made.Replay))
	_, text := mark(log, r, made.Replay)
	row(out, "marked", "%s", text)
	return replayError(log, made.Replay)
}
