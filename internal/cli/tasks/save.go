package tasks

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"optibfm/controller"
	"optibfm/internal/setup"
	"optibfm/internal/taskstore"
	"optibfm/internal/version"
)

// Save saves a belief as a task: the newest in a folder of a run, by default run.state_dir, or that
// at the end of a log.
func Save(out io.Writer, o Options, n New, from string) error {
	if err := taskstore.CheckName(n.Name); err != nil {
		return fmt.Errorf("task save: NAME: %w", err)
	}
	w, err := o.open()
	if err != nil {
		return err
	}
	from = cmp.Or(from, w.file.Run.StateDir)
	if from == "" {
		return errors.New("task save: run.state_dir is empty, so that runs save no belief; " +
			"give a configuration that sets it with -c, or a folder or log with --from")
	}
	if from, err = filepath.Abs(from); err != nil {
		return fmt.Errorf("task save: %w", err)
	}
	task, err := w.taskOf(from)
	if err != nil {
		return fmt.Errorf("task save: %w", err)
	}
	task.Name, task.Note = n.Name, n.Note
	what := fmt.Sprintf("%s, the belief of %s", labelsText(task), timeText(task.Belief.SavedAt))
	return w.keep(out, "task save", task, n.Replace, what)
}

// taskOf makes a task of the newest belief in a folder of a run, or of that at the end of a log.
func (w workplace) taskOf(path string) (t taskstore.Task, err error) {
	k := w.file.Controller // of the belief
	if info, missing := os.Stat(path); missing == nil && info.Mode().IsRegular() {
		var end logEnd
		end, err = followLog(path, nil)
		t, k = end.task, end.config
	} else {
		t, err = taskstore.Store{State: path}.Load(taskstore.Last)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s has no belief; teach the robot in a run with run.state_dir, or give a log with --from", path)
		}
		t.Origin.StateDir = path
	}
	if err != nil {
		return t, err
	}
	t.Origin.At, t.Origin.Program = time.Now().UTC(), version.String()
	err = w.complete(&t, path, &k)
	return t, err
}

// complete sets the z of a task. It refuses a task without a label, and one whose model is
// not the configuration's or whose coordinates are not those of k. It gives k the basis of the model.
func (w workplace) complete(t *taskstore.Task, from string, k *controller.Config) error {
	if t.Belief == nil || t.Belief.Labels() == 0 {
		return fmt.Errorf("%s has no label; give labels first", from)
	}
	model, err := setup.ConfiguredModel(w.file)
	if err != nil {
		return err
	}
	if err := setup.CheckModelHash(from, t.ModelHash, model); err != nil {
		return fmt.Errorf("%w: give its configuration with -c", err)
	}
	if k.Basis == nil {
		if err := setup.SetBasis(k, model); err != nil {
			return err
		}
		setup.SetFormerTasks(k, w.file.Run, model, t.Belief) // as the run does, which reports unreadable tasks
	}
	if err := setup.CheckBasis(from, *t.Belief, *k); err != nil {
		return err
	}
	t.Z = setup.MeanZ(*k, *t.Belief)
	return nil
}

// keep writes a task and prints what it is and how to start from it.
func (w workplace) keep(out io.Writer, command string, t taskstore.Task, replace bool, what string) error {
	err := w.store.Save(t, replace)
	if errors.Is(err, taskstore.ErrExists) {
		return fmt.Errorf("%s: %w; choose another name, or --replace it", command, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	args := []string{"run", "--start", t.Name}
	if t.Belief == nil {
		args = append(args, "--strategy", "fixed")
	}
	fmt.Fprintf(out, "%s: %s\nStart from it:\n    %s\n", w.store.Path(t.Name), what, w.command(args...))
	return nil
}
