package terminal

import (
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/ipc"
	"optibfm/internal/setup"
	"optibfm/internal/taskstore"
	"optibfm/rewardsrc"
)

func TestProgress_NamesTheSavedTaskUntilItIsMeasured(t *testing.T) {
	const (
		early = "Too early to tell how well it knows."
		walk  = "It has the labels of the saved task walk. Progress is measured after a few good and bad labels."
		turn  = "It has the labels of the saved task turn. Progress is measured after a few good and bad labels."
	)
	const predicts = "Predicts you well."
	kinds := func(k rewardsrc.Kind) []rewardsrc.Kind { return []rewardsrc.Kind{k} }
	p := NewProgress(&setup.Session{File: configs.Default(), Began: "walk"})
	for _, c := range []struct {
		name           string
		task           string // to which the run switches
		flags          controller.Flags
		labels         []rewardsrc.Kind // applied
		counted        uint64
		evidence       controller.Evidence
		follows, known string
	}{
		{name: "start", counted: 12, follows: "the saved task walk", known: walk},
		{name: "undo", labels: kinds(rewardsrc.Undo), counted: 12, follows: "the saved task walk", known: walk},
		{name: "label", labels: kinds(rewardsrc.Value), counted: 13, known: walk},
		{name: "measured", counted: 17, evidence: controller.Evidence{Skill: 0.9, SkillError: 0.2}, known: predicts},
		{name: "change", flags: controller.FlagChanged, counted: 5, known: early},
		{name: "kept", labels: kinds(rewardsrc.Keep), counted: 18, known: walk},
		{name: "two changes", flags: controller.FlagChanged, counted: 5, known: early},
		{name: "the second", flags: controller.FlagChanged, counted: 5, known: early},
		{name: "which is kept", labels: kinds(rewardsrc.Keep), counted: 5, known: early},
		{name: "switch", task: "turn", flags: controller.FlagSwitched, counted: 7, follows: "the saved task turn",
			known: turn},
		{name: "new task", task: ipc.NewTask, flags: controller.FlagSwitched, known: "It knows nothing of the task yet."},
		{name: "its first label", labels: kinds(rewardsrc.Goal), counted: 1, known: early},
		{name: "learnt", flags: controller.FlagLearnt, counted: 30, known: "It seems to have learnt it: watch it."},
	} {
		if c.task != "" {
			p.Event(flightlog.Event{Fields: map[string]string{"task": c.task}})
		}
		tick := controller.NewTick(controller.Shape{Obs: 1, Action: 1, Latent: 1})
		tick.Flags, tick.Counted, tick.Evidence = c.flags, c.counted, c.evidence
		for _, kind := range c.labels {
			tick.NumLabels = 1
			tick.Labels[0] = controller.AppliedLabel{Kind: kind, Outcome: controller.Applied}
		}
		p.Tick(tick)
		if known, _ := p.Known(tick); p.Follows() != c.follows || known != c.known {
			t.Errorf("%s: follows %q, %q", c.name, p.Follows(), known)
		}
	}
}

func TestProgress_NamesTheTaskThatTheStrategyFollows(t *testing.T) {
	for name, c := range map[string]struct {
		change         func(*setup.Session)
		counted        uint64
		follows, known string
	}{
		"earlier run": {func(s *setup.Session) { s.Began = taskstore.Last }, 5, "the task of the last run",
			"It has the labels of the task of the last run. Progress is measured after a few good and bad labels."},
		"no estimate": {func(s *setup.Session) {
			s.Began, s.File.Controller.Gate.Relearn, s.File.Controller.Gate.StopWhenLearnt = "walk", false, false
		}, 5, "the saved task walk",
			"It has the labels of the saved task walk. It does not estimate how well it knows."},
		"fixed": {func(s *setup.Session) {
			s.File.Run.StartTask, s.File.Controller.Strategy = "walk", controller.Fixed
		}, 0, "the saved task walk", "It has no label of this task."},
		"fixed z": {func(s *setup.Session) { s.File.Controller.Strategy = controller.Fixed }, 0, "",
			"It knows nothing of the task yet."},
		"until a label": {func(s *setup.Session) {
			s.File.Controller.Explore = controller.ExploreConfig{Tasks: []string{"stand"}, UntilLabel: true}
		}, 0, "the saved task stand until the first label", "It knows nothing of the task yet."},
	} {
		s := &setup.Session{File: configs.Default()}
		c.change(s)
		p := NewProgress(s)
		tick := controller.NewTick(controller.Shape{Obs: 1, Action: 1, Latent: 1})
		tick.Counted = c.counted
		p.Tick(tick)
		if known, _ := p.Known(tick); p.Follows() != c.follows || known != c.known {
			t.Errorf("%s: follows %q, %q", name, p.Follows(), known)
		}
	}
}
