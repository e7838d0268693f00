package host

import (
	"errors"
	"fmt"
	"os"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/ipc"
	"optibfm/internal/recorder"
	"optibfm/internal/setup"
	"optibfm/internal/taskstore"
	"optibfm/internal/version"
	"optibfm/posterior"
	"optibfm/rewardsrc"
	"optibfm/rewardsrc/web"
	"optibfm/rtloop"
)

// taskDesk saves and loads the tasks of the console. The control process checks a loaded task and
// switches to it.
type taskDesk struct {
	store    taskstore.Store
	template taskTemplate
	belief   *beliefWatch
	change   *ipc.TaskChanger
}

// newestWait is the longest wait of a save for a belief with all labels that the operator saw.
const newestWait = 2 * time.Second

func (h *Process) openTasks(belief *beliefWatch) (*taskDesk, error) {
	store, err := setup.TaskStore(h.Session.File.Run)
	if err != nil {
		return nil, err
	}
	change, err := ipc.NewTaskChanger(os.NewFile(fdTasks, "tasks"))
	return &taskDesk{store, h.taskTemplate(), belief, change}, err
}

// List implements web.Tasks.
func (d *taskDesk) List() (list []web.SavedTask, err error) {
	entries, err := d.store.Heads()
	taskstore.ByModel(entries, d.template.model)
	for _, e := range entries {
		list = append(list, web.SavedTask{
			Name: e.Name, Robot: e.Task.Origin.Robot, Other: e.Err != nil || e.Task.ModelHash != d.template.model,
		})
	}
	return list, err
}

// Save implements web.Tasks.
func (d *taskDesk) Save(name string, replace bool) error {
	belief, noise, until, err := d.belief.since(rtloop.Now())
	if err != nil {
		return err
	}
	if noise.Labels == 0 {
		return errors.New("the task has no label; give labels first")
	}
	err = d.store.Save(d.template.task(name, belief, noise, until), replace)
	if errors.Is(err, taskstore.ErrExists) {
		return fmt.Errorf("the task %s exists; choose another name, or replace it", name)
	}
	return err
}

// Load implements web.Tasks.
func (d *taskDesk) Load(name string) error {
	_, file, err := d.store.Read(name)
	if err != nil {
		return err
	}
	return d.change.Switch(name, file)
}

// New implements web.Tasks.
func (d *taskDesk) New() error { return d.change.New() }

// formerTask is the belief before a changed task, from a tick on.
type formerTask struct {
	belief ipc.TaskBelief
	since  uint64
}

// noteFormer drops a former task that the operator kept, and saves one that can no longer be kept.
func (h *Process) noteFormer(t *controller.Tick) {
	if h.former == nil || t.Index < h.former.since {
		return
	}
	for i := range t.NumLabels {
		if l := &t.Labels[i]; l.Kind == rewardsrc.Keep && l.Outcome == controller.Applied {
			h.former = nil
			h.labels.kept(t.Index)
			return
		}
	}
	if !t.Flags.Has(controller.FlagKeepable) {
		h.saveFormer()
	}
}

// saveFormer saves the former task, if there is one. It does not wait for the disk.
func (h *Process) saveFormer() {
	if h.former == nil {
		return
	}
	b, until := h.former.belief, h.former.since
	h.former = nil
	h.saving.Go(func() {
		name := "before-change-" + time.Now().Format("20060102-150405")
		e := flightlog.Event{At: rtloop.Now(), Level: flightlog.Info, Text: "the task before the change is saved as " + name}
		if err := h.saveTask(name, b, until); err != nil {
			e.Level, e.Text = flightlog.Error, fmt.Sprintf("the task before the change is not saved: %v", err)
		}
		recorder.Offer(h.Planner.Events, e)
	})
}

// saveTask saves the belief before a tick as a task.
func (h *Process) saveTask(name string, b ipc.TaskBelief, until uint64) error {
	store, err := setup.TaskStore(h.Session.File.Run)
	if err != nil {
		return err
	}
	belief, err := h.Session.File.Controller.NewBelief(h.Session.Shape().Latent)
	if err != nil {
		return err
	}
	if err := belief.Restore(b.State); err != nil {
		return err
	}
	return store.Save(h.taskTemplate().task(name, belief, b.Noise, until), false)
}

// taskTemplate makes tasks of the beliefs of a run.
type taskTemplate struct {
	file  configs.File
	model string // its hash
	robot string // its name

	labels *labelBook
}

func (h *Process) taskTemplate() taskTemplate {
	return taskTemplate{h.Session.File, h.Config.ModelHash, h.Config.Spec.Name, &h.labels}
}

// task returns the task of the belief before tick until, which it does not copy.
func (r taskTemplate) task(name string, b *posterior.Belief, n controller.NoiseState, until uint64) taskstore.Task {
	k := r.file.Controller
	saved := taskstore.SavedBelief{
		Belief: b, Basis: k.BasisHash(), Offset: k.Offset, Sigma: k.Sigma, Estimate: k.Noise.Estimate,
		LearntScale: k.LearntScale(), Noise: n, SavedAt: time.Now().UTC(), Sessions: r.labels.sessions(until),
	}
	return taskstore.Task{
		Name: name, ModelHash: r.model, Z: setup.MeanZ(k, saved), Belief: &saved,
		Origin: taskstore.Origin{
			At: saved.SavedAt, Program: version.String(), Robot: r.robot, StateDir: r.file.Run.StateDir,
		},
	}
}

// since returns a copy of a belief from after a time or, if none comes, of the newest one, which is
// that before tick until.
func (w *beliefWatch) since(at int64) (b *posterior.Belief, n controller.NoiseState, until uint64, err error) {
	for deadline := time.Now().Add(newestWait); time.Now().Before(deadline); time.Sleep(viewEvery / 4) {
		if w.newest.Load() != nil && w.seenAt() > at {
			break
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	copied, err := w.cfg.NewBelief(w.dim)
	if err != nil {
		return nil, w.noise, 0, err
	}
	state := make([]float64, posterior.StateLen(w.belief.Dim()))
	w.belief.State(state)
	return copied, w.noise, w.until, copied.Restore(state)
}

func (w *beliefWatch) seenAt() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.takenAt
}
