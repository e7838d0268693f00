package host

import (
	"slices"
	"sync"
	"time"

	"optibfm/internal/ipc"
	"optibfm/internal/setup"
	"optibfm/internal/taskstore"
)

// labelBook has the sessions whose labels the beliefs of a run have. The recorder writes it.
// Several goroutines may read it. Without begin, and for a nil *labelBook, they are unknown.
type labelBook struct {
	mu    sync.Mutex
	run   string
	parts []labelPart // the newest, in the order of time
	taken uint64      // the recorder has taken the ticks before this one, with their switches
}

// labelPart is a part of a run with one belief, from a tick on.
type labelPart struct {
	from   uint64
	began  uint64                     // the tick from which its session is
	before func() []taskstore.Session // with whose labels it began; it may read a file
}

const (
	recordedWait = time.Second // of a save for the recorder
	maxParts     = 16          // more than there can be between a belief and its save
)

// begin sets where the labels of the run come from. It is the first call.
func (k *labelBook) begin(l taskstore.Lineage) {
	k.run, k.parts = l.Run, []labelPart{{before: func() []taskstore.Session { return l.Before }}}
}

// took notes that the recorder took all ticks before one.
func (k *labelBook) took(before uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.taken = before
}

// switched notes that the run switched, before tick from, to a belief of other sessions, nil for
// unknown ones.
func (k *labelBook) switched(from uint64, before func() []taskstore.Session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.add(labelPart{from, from, sync.OnceValue(before)})
}

// kept notes that the run returned, in a tick, to the belief before the newest switch.
func (k *labelBook) kept(tick uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.parts); n > 1 {
		k.add(labelPart{tick, k.parts[n-2].began, k.parts[n-2].before})
	}
}

func (k *labelBook) add(p labelPart) {
	if k.parts = append(k.parts, p); len(k.parts) > maxParts {
		k.parts = slices.Delete(k.parts, 0, 1)
	}
}

// sessions returns those of the belief before a tick. If the recorder does not take the tick before
// within recordedWait, they are unknown.
func (k *labelBook) sessions(until uint64) []taskstore.Session {
	if k == nil {
		return nil
	}
	for deadline := time.Now().Add(recordedWait); !k.tookBefore(until); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return nil
		}
	}
	part, ok := k.partBefore(until)
	if !ok {
		return nil
	}
	return taskstore.Lineage{Run: k.run, Before: part.before()}.Sessions(part.began, until)
}

// partBefore returns the part of the belief before a tick, if it is not too old.
func (k *labelBook) partBefore(tick uint64) (p labelPart, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range slices.Backward(k.parts) {
		if p.from < tick || p.from == 0 {
			return p, true
		}
	}
	return p, false
}

func (k *labelBook) tookBefore(tick uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.taken >= tick
}

// sessionsOf returns the sessions of a belief to which the run switched: those of the task with its
// name, if that has the same belief.
func (h *Process) sessionsOf(name string, hash uint64) []taskstore.Session {
	if name == ipc.NewTask {
		return []taskstore.Session{}
	}
	store, err := setup.TaskStore(h.Session.File.Run)
	if err != nil {
		return nil
	}
	t, err := store.Load(name)
	if err != nil || t.Belief == nil || t.Belief.Belief.Hash() != hash {
		return nil
	}
	return t.Belief.Sessions
}

// unknownSessions is for a belief with some of the labels of its sessions.
func unknownSessions() []taskstore.Session { return nil }
