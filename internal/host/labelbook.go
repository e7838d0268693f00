package host

import (
	"sync"
	"time"

	"optibfm/internal/link"
	"optibfm/internal/setup"
	"optibfm/internal/taskstore"
)

// labelBook has the sessions whose labels the beliefs of a run have. The recorder writes it. Several goroutines may
// read it. Without begin, and for a nil *labelBook, they are unknown.
type labelBook struct {
	mu    sync.Mutex
	parts []labelPart // in the order of time
	taken uint64      // the recorder has taken the ticks before this one, with their switches
}

// labelPart is a part of a run with one belief, from a tick on.
type labelPart struct {
	from    uint64
	began   uint64 // the tick from which its session is
	lineage taskstore.Lineage
}

// recordedWait is how long a save waits for the recorder.
const recordedWait = time.Second

// begin sets where the labels of the run come from. It is the first call.
func (k *labelBook) begin(l taskstore.Lineage) { k.parts = []labelPart{{lineage: l}} }

// took notes that the recorder took all ticks before one.
func (k *labelBook) took(before uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.taken = before
}

// switched notes that the run switched, before tick from, to a belief of other sessions, nil for unknown ones.
func (k *labelBook) switched(from uint64, before []taskstore.Session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.parts); n > 0 {
		k.parts = append(k.parts, labelPart{from, from, k.parts[n-1].lineage.SwitchedTo(before)})
	}
}

// kept notes that the run returned, in a tick, to the belief before the newest switch.
func (k *labelBook) kept(tick uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := len(k.parts); n > 1 {
		former := k.parts[n-2]
		former.from = tick
		k.parts = append(k.parts, former)
	}
}

// sessions returns those of the belief before a tick. If the recorder does not take the tick before within
// recordedWait, they are unknown.
func (k *labelBook) sessions(until uint64) []taskstore.Session {
	if k == nil {
		return nil
	}
	for deadline := time.Now().Add(recordedWait); !k.tookBefore(until); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return nil
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	last := len(k.parts) - 1
	if last < 0 {
		return nil
	}
	for last > 0 && k.parts[last].from >= until {
		last--
	}
	return k.parts[last].lineage.Sessions(k.parts[last].began, until)
}

func (k *labelBook) tookBefore(tick uint64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.taken >= tick
}

// sessionsOf returns the sessions of a belief to which the run switched: those of the task with its name, if that has
// the same belief.
func (h *Process) sessionsOf(b link.TaskBelief) []taskstore.Session {
	if b.Name == link.NewTask {
		return []taskstore.Session{}
	}
	store, err := setup.TaskStore(h.Session.File.Run)
	if err != nil {
		return nil
	}
	t, err := store.Load(b.Name)
	if err != nil || t.Belief == nil || t.Belief.Belief.Hash() != b.Hash {
		return nil
	}
	return t.Belief.Sessions
}
