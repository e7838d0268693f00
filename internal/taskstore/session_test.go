package taskstore

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"optibfm/internal/fatal"
)

func TestLineage_SurvivesTheMetadataOfALog(t *testing.T) {
	known := &SavedBelief{Sessions: []Session{{"0123456789abcdef-0", 12}, {"afterwards-00ff", 0}}}
	for name, l := range map[string]Lineage{
		"no labels": NewLineage(nil), "labels": NewLineage(known), "unknown labels": NewLineage(new(SavedBelief)),
	} {
		metadata := map[string]string{"task": "stand"}
		l.Describe(metadata)
		if got, err := LineageOf(metadata); err != nil || !reflect.DeepEqual(got, l) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, l)
		}
	}
	if a, b := NewLineage(nil), NewLineage(nil); a.Run == b.Run {
		t.Error("two runs have one name")
	}
	if got, err := LineageOf(map[string]string{"task": "stand"}); err != nil || got.Sessions(0, 9) != nil {
		t.Errorf("a log without a lineage: %+v, %v", got, err)
	}
	for _, bad := range []string{"a-0", "a-0@", "a-0@-1", "a-0@1 a-0@2", "A@1", "@1", strings.Repeat("a", 41) + "@1"} {
		if got, err := LineageOf(map[string]string{keyRun: "run", keyBefore: bad}); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
	if _, err := LineageOf(map[string]string{keyRun: "\x1b[2J", keyBefore: ""}); err == nil {
		t.Error("a run without a name")
	}
}

func TestLineage_DoesNotOutgrowAFile(t *testing.T) {
	belief := newTask(t, "turn", true).Belief
	belief.Sessions = []Session{}
	for i := range 2 * maxSessions {
		l := NewLineage(belief)
		l.Run = fmt.Sprintf("%016x", ^uint64(i))
		task := newTask(t, "turn", true)
		task.Belief.Sessions = l.Sessions(^uint64(0), ^uint64(0))
		if known := task.Belief.Sessions != nil; known != (i < maxSessions) {
			t.Fatalf("run %d: known %v", i, known)
		}
		if i == maxSessions-1 || i == maxSessions {
			data, err := task.append(nil)
			fatal.If(t, err)
			got, err := Parse("turn", data)
			fatal.If(t, err)
			if !slices.Equal(got.Belief.Sessions, task.Belief.Sessions) {
				t.Fatalf("run %d: other sessions", i)
			}
		}
		belief = task.Belief
	}
}
