package web

// Tasks saves the task of the robot and changes it. A method may take seconds; the server calls one at a time.
type Tasks interface {
	// Names lists the saved tasks.
	Names() ([]string, error)
	// Save saves the belief of the robot under a name. replace allows it to replace another task.
	Save(name string, replace bool) error
	// Load lets the robot switch to a saved task. A robot that is armed moves at once.
	Load(name string) error
	// New lets the robot begin a task without labels.
	New() error
}

// maxNames bounds the list of tasks that a browser receives.
const maxNames = 200

// task starts what a browser asks for, or returns why not. Another goroutine answers, so that STOP need not wait.
func (c *client) task(m message) (refused string) {
	s := c.server
	switch {
	case s.opts.Tasks == nil || s.cfg.WatchOnly:
		return "this console does not change tasks"
	case !s.seated(c):
		return "another device labels"
	case s.published.Load().ended != "":
		return "the run is over"
	case !s.changing.TryLock():
		return "another change of the task is not finished"
	}
	go func() {
		defer s.changing.Unlock()
		r := reply{Type: "tasks", Kind: m.Kind}
		err := changeTask(s.opts.Tasks, m)
		if err != nil {
			r.Error = err.Error()
		}
		if names, err := s.opts.Tasks.Names(); err == nil {
			r.Names = names[:min(len(names), maxNames)]
		} else if r.Error == "" {
			r.Error = err.Error()
		}
		c.reply(r)
	}()
	return ""
}

func changeTask(t Tasks, m message) error {
	switch m.Kind {
	case taskSave:
		return t.Save(m.Name, m.Replace)
	case taskLoad:
		return t.Load(m.Name)
	case taskNew:
		return t.New()
	}
	return nil
}
