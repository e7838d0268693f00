package tasks

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"gonum.org/v1/gonum/floats"

	"optibfm/configs"
	"optibfm/internal/plaintext"
	"optibfm/internal/setup"
	"optibfm/internal/shell"
	"optibfm/internal/taskstore"
)

// Options select the configuration of the robot, which has the folder of its tasks and its model.
type Options struct {
	Config string   // a file or a name
	Set    []string // overrides
}

// workplace is the configuration of a command and its tasks.
type workplace struct {
	Options
	file  configs.File
	store taskstore.Store
}

func (o Options) open() (w workplace, err error) {
	w.Options = o
	if w.file, err = configs.Load(o.Config, o.Set...); err != nil {
		return w, err
	}
	w.file.Controller.LabelRange = w.file.Operator.LabelRange() // as in a run
	w.store, err = setup.TaskStore(w.file.Run)
	return w, err
}

// New describes a task to be saved.
type New struct {
	Name    string
	Note    string
	Replace bool // a task of the same name
}

// List prints the saved tasks, first those of the configuration's model, and marks the others. It
// prints all tasks that it can read, then returns the errors of the others.
func List(out io.Writer, o Options) error {
	w, err := o.open()
	if err != nil {
		return err
	}
	entries, err := w.store.List()
	if err != nil {
		err = fmt.Errorf("task list: %w", err)
	}
	if len(entries) == 0 {
		if err == nil {
			fmt.Fprintf(out, "%s has no task; save one with: %s\n", w.store.Dir, w.command("task", "save", "NAME"))
		}
		return err
	}
	model, unknown := setup.ConfiguredModel(w.file)
	if unknown != nil {
		unknown = fmt.Errorf("task list: the models are not compared: %w", unknown)
		return errors.Join(printTable(out, entries, func(string) bool { return false }), err, unknown)
	}
	taskstore.ByModel(entries, model.Fingerprint())
	return errors.Join(printTable(out, entries, func(hash string) bool { return hash != model.Fingerprint() }), err)
}

// command returns a command of this program with the configuration of this one.
func (w workplace) command(args ...string) string {
	args = append(args, "--config", shell.Operand(w.Config))
	for _, s := range w.Set {
		args = append(args, "--set", s)
	}
	return shell.ThisProgram().Command(args...)
}

// printTable prints the tasks, with a mark if another reports that the hash is of another model. It
// returns the errors of the files that could not be read.
func printTable(out io.Writer, entries []taskstore.Entry, another func(hash string) bool) error {
	var errs []error
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tLABELS\tMADE\tROBOT\tMODEL\tNOTE")
	for _, e := range entries {
		if e.Err != nil {
			errs = append(errs, fmt.Errorf("task list: %w", e.Err))
			continue
		}
		model := plaintext.Clean(plaintext.ShortHash(e.Task.ModelHash))
		if another(e.Task.ModelHash) {
			model += " (another)"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", e.Name, countText(e.Task), timeText(e.Task.Origin.At),
			cmp.Or(plaintext.Clean(e.Task.Origin.Robot), "-"), model, plaintext.Clean(e.Task.Note))
	}
	return errors.Join(append(errs, table.Flush())...)
}

// Show prints a task, with asJSON as JSON with its z.
func Show(out io.Writer, o Options, name string, asJSON bool) error {
	w, err := o.open()
	if err != nil {
		return err
	}
	t, err := w.store.Load(name)
	if err != nil {
		return fmt.Errorf("task show: %w", err)
	}
	if asJSON {
		return printJSON(out, t)
	}
	row := func(name, format string, args ...any) {
		fmt.Fprint(out, plaintext.Wrap(fmt.Sprintf("  %-9s %s", name, plaintext.Clean(fmt.Sprintf(format, args...)))))
	}
	fmt.Fprintln(out, w.store.Path(t.Name))
	if t.Note != "" {
		row("note", "%s", t.Note)
	}
	row("model", "%s", t.ModelHash)
	row("z", "%d numbers, norm %.4g", len(t.Z), floats.Norm(t.Z, 2))
	if b := t.Belief; b != nil {
		where := ""
		if from := cmp.Or(t.Origin.StateDir, t.Origin.Log); from != "" { // the console of a run without run.state_dir
			where = " in " + from
		}
		row("belief", "%s, saved %s%s", labelsText(t), timeText(b.SavedAt), where)
		if n := t.Origin.Afterwards; n > 0 {
			row("labels", "%d given to the log afterwards", n)
		}
		row("settings", "lambda %g, rho %g, sigma %g, exact_restore %t",
			b.Belief.Lambda(), b.Belief.Rho(), b.Sigma, b.Belief.ExactRestore())
	} else {
		from := t.Origin
		row("log", "%s, from %g to %g s: the mean of %d states", from.Log, from.FromS, from.ToS, from.States)
	}
	row("made", "%s by optibfm %s, robot %s", timeText(t.Origin.At),
		cmp.Or(t.Origin.Program, "of an unknown version"), cmp.Or(t.Origin.Robot, "unknown"))
	return nil
}

type taskReport struct {
	Name string `json:"name"`
	taskstore.Task
	Belief *beliefReport `json:"belief,omitempty"` // not of a task from a log
}

type beliefReport struct {
	Labels       uint64    `json:"labels"`
	SavedAt      time.Time `json:"saved_at"`
	Lambda       float64   `json:"lambda"`
	Rho          float64   `json:"rho"`
	Sigma        float64   `json:"sigma"`
	ExactRestore bool      `json:"exact_restore"`

	Sessions []taskstore.Session `json:"sessions,omitempty"` // whose labels it has; none if unknown
}

func printJSON(out io.Writer, t taskstore.Task) error {
	report := taskReport{Name: t.Name, Task: t}
	if b := t.Belief; b != nil {
		report.Belief = &beliefReport{
			b.Labels(), b.SavedAt, b.Belief.Lambda(), b.Belief.Rho(), b.Sigma, b.Belief.ExactRestore(),
			b.Sessions,
		}
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

// Delete deletes a task.
func Delete(out io.Writer, o Options, name string) error {
	w, err := o.open()
	if err != nil {
		return err
	}
	if err := w.store.Delete(name); err != nil {
		return fmt.Errorf("task delete: %w", err)
	}
	fmt.Fprintf(out, "%s: deleted\n", w.store.Path(name))
	return nil
}

// Names lists the names of the saved tasks, for the completion of a shell. ofModel: only those of
// the configuration's model, if it can be read. A completion reports no errors.
func Names(o Options, ofModel bool) (names []string) {
	w, err := o.open()
	if err != nil {
		return nil
	}
	hash := ""
	if ofModel {
		if model, err := setup.ConfiguredModel(w.file); err == nil {
			hash = model.Fingerprint()
		}
	}
	entries, _ := w.store.Heads()
	for _, e := range entries {
		if hash == "" || e.Task.ModelHash == hash {
			names = append(names, e.Name)
		}
	}
	return names
}

// labelsText describes the labels of a belief.
func labelsText(t taskstore.Task) string {
	if t.Belief.Labels() == 1 {
		return "1 label"
	}
	return countText(t) + " labels"
}

// countText is the number of labels, or - for a task from a log.
func countText(t taskstore.Task) string {
	if t.Belief == nil {
		return "-"
	}
	return fmt.Sprint(t.Belief.Labels())
}

func timeText(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
