package setup

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/taskstore"
)

// Start is the saved task with which a run starts.
type Start struct {
	taskstore.Task
	Path string // of its file
}

// TaskStore returns the tasks of run.task_dir, or of its default, and those of run.state_dir.
func TaskStore(r configs.Run) (taskstore.Store, error) {
	dir, err := taskDir(r)
	return taskstore.Store{Dir: dir, State: r.StateDir}, err
}

func taskDir(r configs.Run) (string, error) {
	switch {
	case r.TaskDir != "":
		return r.TaskDir, nil
	case r.StateDir != "":
		return filepath.Join(filepath.Dir(filepath.Clean(r.StateDir)), "tasks"), nil
	}
	state, err := userState()
	if err != nil {
		return "", fmt.Errorf("run.task_dir: empty, and %w; set a folder", err)
	}
	return filepath.Join(state, "tasks"), nil
}

// AuthorityFile returns the file of the robot's certificate authority: in run.state_dir, or without
// it in the user's folder.
func AuthorityFile(r configs.Run) (string, error) {
	const name = "authority.pem"
	if r.StateDir != "" {
		return filepath.Join(r.StateDir, name), nil
	}
	state, err := userState()
	if err != nil {
		return "", fmt.Errorf("run.state_dir: empty, and %w; set a folder", err)
	}
	return filepath.Join(state, name), nil
}

// userState returns the user's folder for the state of runs.
func userState() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("this user has no home folder (%w)", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "optibfm"), nil
}

// LoadStart loads the task of run.start_task and checks that a run with this model can start from
// it. It gives its z to the strategy fixed. Without the key it returns nil.
func LoadStart(f *configs.File, m Model) (*Start, error) {
	if f.Run.StartTask == "" {
		return nil, nil
	}
	store, err := TaskStore(f.Run)
	if err != nil {
		return nil, err
	}
	task, err := store.Load(f.Run.StartTask)
	if err != nil {
		return nil, fmt.Errorf("run.start_task: %w", err)
	}
	s := &Start{Task: task, Path: store.Path(task.Name)}
	if err := s.fit(f, m); err != nil {
		return nil, fmt.Errorf("run.start_task: %w", err)
	}
	return s, nil
}

// LoadVetted gives the controller the z of the tasks in controller.explore.tasks.
func LoadVetted(f *configs.File, m Model) error {
	explore := &f.Controller.Explore
	explore.Vetted = nil
	if len(explore.Tasks) == 0 {
		return nil
	}
	store, err := TaskStore(f.Run)
	if err != nil {
		return err
	}
	store.State = "" // only the tasks that a person saved
	for _, name := range explore.Tasks {
		task, err := store.Load(name)
		if err == nil {
			err = cmp.Or(checkTaskModel(store.Path(name), task, m), checkZ(store.Path(name), task))
		}
		if err != nil {
			return fmt.Errorf("controller.explore.tasks: %w", err)
		}
		explore.Vetted = append(explore.Vetted, task.Z)
	}
	return nil
}

// fit checks the task against a configuration, and sets fixed_z of the strategy fixed.
func (s *Start) fit(f *configs.File, m Model) error {
	k := &f.Controller
	if s.Belief != nil && k.Strategy == controller.Fixed && otherScale(*s.Belief, *k) {
		s.Belief = nil
	}
	if err := CheckTask(s.Path, s.Task, *k, m); err != nil {
		return err
	}
	if k.Strategy != controller.Fixed {
		if s.Belief == nil {
			return fmt.Errorf("%s has no belief to start from (strategy %s): it was made from a log; use --strategy %s",
				s.Path, k.Strategy, controller.Fixed)
		}
		return nil
	}
	if err := checkZ(s.Path, s.Task); err != nil {
		return err
	}
	if len(k.FixedZ) > 0 && !slices.Equal(k.FixedZ, s.Z) {
		return errors.New("controller.fixed_z differs from the z of the task; remove one of the two keys")
	}
	k.FixedZ = s.Z
	return nil
}

// checkTaskModel refuses a task of another model, and names the robot that learnt it.
func checkTaskModel(where string, t taskstore.Task, m Model) error {
	if robot := t.Origin.Robot; robot != "" {
		where = fmt.Sprintf("%s, of the robot %q,", where, robot)
	}
	return CheckModelHash(where, t.ModelHash, m)
}

// checkZ refuses a task without a direction.
func checkZ(where string, t taskstore.Task) error {
	if len(t.Z) == 0 {
		return fmt.Errorf("%s has no z; give it labels in a run first", where)
	}
	return nil
}

// CheckTask refuses a task whose model is not the configuration's and, if it has a belief, a task
// with different settings. where is its file.
func CheckTask(where string, t taskstore.Task, k controller.Config, m Model) error {
	if err := checkTaskModel(where, t, m); err != nil || t.Belief == nil {
		return err
	}
	return checkBelief(t, where, k, m)
}

// CheckSwitch refuses a task to which a run with this configuration and model cannot switch.
func CheckSwitch(t taskstore.Task, k controller.Config, m Model) error {
	if err := CheckFollowsBelief(k); err != nil {
		return err
	}
	if t.Belief == nil {
		return fmt.Errorf("the task %s has no belief: it was made from a log; start a run from it with --strategy %s",
			t.Name, controller.Fixed)
	}
	return CheckTask("the task "+t.Name, t, k, m)
}

// CheckFollowsBelief refuses a configuration whose run follows no belief.
func CheckFollowsBelief(k controller.Config) error {
	if k.Strategy == controller.Fixed || k.Strategy == controller.Random {
		return fmt.Errorf("the run does not follow its belief (controller.strategy: %s); start it with %s",
			k.Strategy, controller.Thompson)
	}
	return nil
}

// message describes the start.
func (s *Start) message() string {
	if s.Belief == nil {
		return fmt.Sprintf("the run follows the z of the task %s", s.Name)
	}
	return fmt.Sprintf("the run starts from the task %s of %s; labels in it: %d", s.Name,
		s.Belief.SavedAt.UTC().Format("2006-01-02 15:04:05 UTC"), s.Belief.Labels())
}
