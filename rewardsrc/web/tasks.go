package web

import "cmp"

// Tasks saves the task of the robot and changes it. A method may take seconds; the server calls one
// at a time.
type Tasks interface {
	// List lists the saved tasks, first those of the robot's model.
	List() ([]SavedTask, error)
	// Save saves the belief of the robot under a name. replace allows it to replace another task.
	Save(name string, replace bool) error
	// Load lets the robot switch to a saved task. A robot that is armed moves at once.
	Load(name string) error
	// New lets the robot begin a task without labels.
	New() error
}

// SavedTask is a task in a list.
type SavedTask struct {
	Name  string `json:"name"`
	Robot string `json:"robot,omitempty"` // that learnt it; "": unknown
	Other bool   `json:"other,omitempty"` // of another model: this robot cannot follow it
}

// maxTasks bounds the list of tasks that a browser receives.
const maxTasks = 200

// task starts what a browser asks for, or returns the reason why it does not. Another goroutine
// answers, so that STOP need not wait.
func (c *client) task(m message) (refused string) {
	s := c.server
	switch {
	case s.opts.Tasks == nil || s.cfg.WatchOnly:
		return "this console does not change tasks"
	case !s.seated(c):
		return "another device labels"
	case s.published.Load().ended.Why != "":
		return "the run is over"
	case !s.changing.TryLock():
		return "another change of the task is not finished"
	}
	go func() {
		answer := changeTask(s.opts.Tasks, m)
		s.changing.Unlock() // before the answer: the browser may send the next change at once
		c.reply(answer)
	}()
	return ""
}

// changeTask returns the answer for the browser: why nothing changed, and the saved tasks.
func changeTask(t Tasks, m message) reply {
	r := reply{Type: "tasks", Kind: m.Kind}
	var err error
	switch m.Kind {
	case taskSave:
		err = t.Save(m.Name, m.Replace)
	case taskLoad:
		err = t.Load(m.Name)
	case taskNew:
		err = t.New()
	}
	list, unlisted := t.List()
	r.Tasks = list[:min(len(list), maxTasks)]
	if err = cmp.Or(err, unlisted); err != nil {
		r.Error = err.Error()
	}
	return r
}
