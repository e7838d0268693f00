package web

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
)

func namesOf(list []SavedTask) (names []string) {
	for _, t := range list {
		names = append(names, t.Name)
	}
	return names
}

// shelf keeps the names of tasks.
type shelf struct {
	mu     sync.Mutex
	names  []string
	others []SavedTask
	calls  []string
	gate   chan struct{} // a change waits for it; nil: none waits
}

func (s *shelf) did(what string) {
	if s.gate != nil {
		<-s.gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, what)
}

func (s *shelf) List() (list []SavedTask, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.names {
		list = append(list, SavedTask{Name: name})
	}
	return append(list, s.others...), nil
}

func (s *shelf) Save(name string, replace bool) error {
	if list, _ := s.List(); slices.Contains(namesOf(list), name) && !replace {
		return errors.New("exists")
	}
	s.did("save " + name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, name)
	return nil
}

func (s *shelf) Load(name string) error { s.did("load " + name); return nil }
func (s *shelf) New() error             { s.did("new"); return nil }

func TestServer_ChangesTheTask(t *testing.T) {
	kept := &shelf{names: []string{"walk"}}
	b, _ := pairedBrowser(t, open(t, func(_ *Config, o *Options) { o.Tasks = kept }))
	if !b.hello.Tasks {
		t.Error("hello offers no tasks")
	}
	for _, c := range []struct {
		send  message
		names []string
		err   string
	}{
		{message{Kind: taskList}, []string{"walk"}, ""},
		{message{Kind: taskSave, Name: "walk"}, []string{"walk"}, "exists"},
		{message{Kind: taskSave, Name: "run"}, []string{"walk", "run"}, ""},
		{message{Kind: taskLoad, Name: "walk"}, []string{"walk", "run"}, ""},
		{message{Kind: taskNew}, []string{"walk", "run"}, ""},
	} {
		c.send.Type = typeTask
		b.write(c.send)
		r := b.reply()
		if r.Type != "tasks" || r.Kind != c.send.Kind || r.Error != c.err {
			t.Errorf("%+v: %+v", c.send, r)
		}
		if names := namesOf(r.Tasks); !slices.Equal(names, c.names) {
			t.Errorf("%+v: names %q, want %q", c.send, names, c.names)
		}
	}
	if want := []string{"save run", "load walk", "new"}; !slices.Equal(kept.calls, want) {
		t.Errorf("calls %q, want %q", kept.calls, want)
	}
}

func TestServer_OnlyTheLabellingDeviceChangesTheTask(t *testing.T) {
	kept := &shelf{}
	s := open(t, func(_ *Config, o *Options) { o.Tasks = kept })
	pairedBrowser(t, s)
	second := dial(t, s, pairWith(t, s, token(s.Pairing().URL)))
	refused := func(b *browser, reason string) {
		t.Helper()
		b.write(message{Type: typeTask, Kind: taskNew})
		if r := b.reply(); !strings.Contains(r.Error, reason) || len(kept.calls) > 0 {
			t.Errorf("%+v, calls %q; want %q", r, kept.calls, reason)
		}
	}
	refused(second, "another device labels")
	without, _ := pairedBrowser(t, open(t, nil))
	refused(without, "does not change tasks")
}

func TestServer_ChangesOneTaskAtATime(t *testing.T) {
	kept := &shelf{gate: make(chan struct{})}
	stopped := make(chan string, 1)
	b, _ := pairedBrowser(t, open(t, func(_ *Config, o *Options) {
		o.Tasks, o.Stop = kept, func(by string, _ bool) { stopped <- by }
	}))
	b.write(message{Type: typeTask, Kind: taskNew})
	b.write(message{Type: typeTask, Kind: taskLoad, Name: "walk"})
	if r := b.reply(); r.Kind != taskLoad || !strings.Contains(r.Error, "not finished") {
		t.Errorf("%+v", r)
	}
	b.write(message{Type: typeStop}) // waits for no task
	<-stopped
	close(kept.gate)
	if r := b.reply(); r.Kind != taskNew || r.Error != "" {
		t.Errorf("%+v", r)
	}
}
