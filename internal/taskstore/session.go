package taskstore

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Session is a part of a run: from its start, or from a switch of the task, on. A belief has the
// labels of its sessions. Labels of two beliefs are the same only if they have a session in common.
type Session struct {
	ID    string `json:"id"`    // of the run and of the tick before which the session began
	Until uint64 `json:"until"` // index of the run's first tick that the belief does not include
}

// maxSessions is the largest number of sessions of a belief. Those of more are unknown.
const maxSessions = 1024

// checkSessions reports the reason why a belief cannot have these sessions.
func checkSessions(sessions []Session) error {
	if len(sessions) > maxSessions {
		return fmt.Errorf("%d sessions, at most %d", len(sessions), maxSessions)
	}
	seen := map[string]bool{}
	for _, s := range sessions {
		if !validSession(s.ID) || seen[s.ID] {
			return fmt.Errorf("a session with a bad or repeated id (%.40q)", s.ID)
		}
		seen[s.ID] = true
	}
	return nil
}

func validSession(id string) bool {
	strange := func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'z') && r != '-' }
	return id != "" && len(id) <= 40 && !strings.ContainsFunc(id, strange)
}

// LabelSet is which labels a belief has: of each session, by its ID, those before a tick.
type LabelSet map[string]uint64

// LabelSet returns the labels of a belief, none if they are unknown.
func (b *SavedBelief) LabelSet() LabelSet {
	set := LabelSet{}
	for _, s := range b.Sessions {
		set[s.ID] = s.Until
	}
	return set
}

// Within reports whether another belief has these labels, or a later state of their sessions.
func (l LabelSet) Within(of LabelSet) bool {
	for id, until := range l {
		if newest, ok := of[id]; !ok || newest < until {
			return false
		}
	}
	return true
}

// Lineage is where the labels of a run come from.
type Lineage struct {
	Run    string    // a random name of the run
	Before []Session // of the belief with which the run begins; nil: unknown
}

// NewLineage returns the lineage of a run that begins with a belief, nil for one without labels.
func NewLineage(begins *SavedBelief) Lineage {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	l := Lineage{Run: fmt.Sprintf("%x", id), Before: []Session{}}
	if begins != nil {
		l.Before = begins.Sessions
	}
	return l
}

// Sessions returns the sessions of a belief of the run, which began it before tick from and has the
// labels before tick until. They are unknown, nil, if those before are.
func (l Lineage) Sessions(from, until uint64) []Session {
	if l.Run == "" || l.Before == nil || len(l.Before) == maxSessions {
		return nil
	}
	return append(slices.Clone(l.Before), Session{fmt.Sprintf("%s-%d", l.Run, from), until})
}

// With returns the sessions with another one, which ended. nil, for unknown ones, stays nil.
func With(sessions []Session, id string) []Session {
	if sessions == nil || len(sessions) == maxSessions {
		return nil
	}
	return append(slices.Clone(sessions), Session{ID: id})
}

// The keys of a lineage in the metadata of a log.
const (
	keyRun    = "run"
	keyBefore = "labels_of" // "" without labels
	unknown   = "unknown sessions"
)

// Describe writes the lineage to the metadata of a log.
func (l Lineage) Describe(metadata map[string]string) {
	metadata[keyRun], metadata[keyBefore] = l.Run, unknown
	if l.Before == nil {
		return
	}
	var text []string
	for _, s := range l.Before {
		text = append(text, fmt.Sprintf("%s@%d", s.ID, s.Until))
	}
	metadata[keyBefore] = strings.Join(text, " ")
}

// LineageOf reads the lineage from the metadata of a log. That of logs without one is unknown.
func LineageOf(metadata map[string]string) (l Lineage, err error) {
	run, before := metadata[keyRun], metadata[keyBefore]
	if run == "" || before == unknown {
		return Lineage{Run: run}, nil
	}
	l = Lineage{Run: run, Before: []Session{}}
	for _, text := range strings.Fields(before) {
		id, until, _ := strings.Cut(text, "@")
		n, err := strconv.ParseUint(until, 10, 64)
		if err != nil {
			return Lineage{}, fmt.Errorf("taskstore: %s in the metadata of the log: %w", keyBefore, err)
		}
		l.Before = append(l.Before, Session{id, n})
	}
	if !validSession(run) {
		return Lineage{}, fmt.Errorf("taskstore: %s in the metadata of the log: invalid name of a run (%.40q)",
			keyRun, run)
	}
	return l, checkSessions(l.Before)
}
