package host

import (
	"errors"
	"fmt"
	"os"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/internal/beliefstore"
	"optibfm/internal/link"
	"optibfm/internal/setup"
	"optibfm/internal/taskstore"
	"optibfm/internal/version"
	"optibfm/posterior"
	"optibfm/rewardsrc/web"
	"optibfm/rtloop"
)

// taskDesk saves and loads the tasks of the console. The control process checks a loaded task and switches to it.
type taskDesk struct {
	folder taskstore.Folder
	file   configs.File
	model  string // its hash
	spec   hal.Spec
	belief *beliefWatch
	change *link.TaskChanger
}

// newestWait is how long a save waits for a belief with all labels that the operator saw.
const newestWait = 2 * time.Second

func (h *Process) openTasks(belief *beliefWatch) (*taskDesk, error) {
	folder, err := setup.TaskFolder(h.Session.File.Run)
	if err != nil {
		return nil, err
	}
	change, err := link.NewTaskChanger(os.NewFile(fdTasks, "tasks"))
	return &taskDesk{folder, h.Session.File, h.Config.ModelHash, h.Config.Spec, belief, change}, err
}

// List implements web.Tasks.
func (d *taskDesk) List() (list []web.SavedTask, err error) {
	entries, err := d.folder.Heads()
	taskstore.ByModel(entries, d.model)
	for _, e := range entries {
		list = append(list, web.SavedTask{
			Name: e.Name, Robot: e.Task.Origin.Robot, Other: e.Err != nil || e.Task.ModelHash != d.model,
		})
	}
	return list, err
}

// Save implements web.Tasks.
func (d *taskDesk) Save(name string, replace bool) error {
	record := newRecord(d.file, d.model, d.spec)
	var err error
	if record.Belief, record.Noise, err = d.belief.since(rtloop.Now()); err != nil {
		return err
	}
	if record.Labels() == 0 {
		return errors.New("the task has no label; give labels first")
	}
	record.SavedAt = time.Now().UTC()
	err = d.folder.Save(taskstore.Task{
		Name: name, ModelHash: d.model, Z: setup.MeanZ(d.file.Controller, record), Belief: &record,
		Origin: taskstore.Origin{
			At: record.SavedAt, Program: record.Program, Robot: record.Robot, StateDir: d.file.Run.StateDir,
		},
	}, replace)
	if errors.Is(err, taskstore.ErrExists) {
		return fmt.Errorf("the task %s exists; choose another name, or replace it", name)
	}
	return err
}

// Load implements web.Tasks.
func (d *taskDesk) Load(name string) error {
	_, file, err := d.folder.Read(name)
	if err != nil {
		return err
	}
	return d.change.Switch(name, file)
}

// New implements web.Tasks.
func (d *taskDesk) New() error { return d.change.New() }

// newRecord returns what a saved belief of a run has besides the belief, its noise and the time.
func newRecord(f configs.File, modelHash string, spec hal.Spec) beliefstore.Record {
	return beliefstore.Record{
		ModelHash: modelHash, Basis: f.Controller.BasisHash(), Offset: f.Controller.Offset,
		Sigma: f.Controller.Sigma, Estimate: f.Controller.Noise.Estimate,
		Program: version.String(), Robot: spec.Name,
	}
}

// since returns a copy of a belief from after a time or, if none comes, of the newest one.
func (w *beliefWatch) since(at int64) (*posterior.Belief, controller.NoiseState, error) {
	for deadline := time.Now().Add(newestWait); time.Now().Before(deadline); time.Sleep(viewEvery / 4) {
		if w.newest.Load() != nil && w.seenAt() > at {
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	copied, err := w.cfg.NewBelief(w.dim)
	if err != nil {
		return nil, w.noise, err
	}
	state := make([]float64, posterior.StateLen(w.belief.Dim()))
	w.belief.State(state)
	return copied, w.noise, copied.Restore(state)
}

func (w *beliefWatch) seenAt() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.takenAt
}
