package cli

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"optibfm/internal/errtest"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/internal/setup"
	"optibfm/internal/taskstore"
)

func TestTask_SwitchOfARunningRobot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bundle := randomBundle(t)
	set := []string{
		"run.task_dir=" + filepath.Join(dir, "tasks"), "run.state_dir=" + filepath.Join(dir, "belief"),
		"model.bundle=" + bundle,
	}
	r := prepareAttended(t, "", set...)
	file, err := configs.Load(configs.DefaultName(), append([]string{"safety.socket=" + r.socket}, set...)...)
	fatal.If(t, err)
	s, err := setup.OpenSession(file, false)
	fatal.If(t, err)
	store, err := setup.TaskStore(file.Run)
	fatal.If(t, err)
	task := rigtest.NewTask(t, s, "walk")
	fatal.If(t, store.Save(task, false))
	other := task
	other.Name, other.Belief = "there", nil
	fatal.If(t, store.Save(other, false))
	switchTo := func(name string) (string, error) {
		args := []string{"task", "switch", name, "--set", "safety.socket=" + r.socket}
		for _, s := range set {
			args = append(args, "--set", s)
		}
		return execute(args...)
	}
	errtest.Contains(t, errtest.Of(switchTo("walk")), "check that the robot runs")
	r.start()
	r.arm()
	if out, err := switchTo("walk"); err != nil || !strings.Contains(out, "is armed") {
		t.Errorf("%v:\n%s", err, out)
	}
	_, err = switchTo("run")
	errtest.Contains(t, err, "no task run")
	_, err = switchTo("there")
	errtest.Contains(t, err, "has no belief")
	if !rigtest.WaitUntil(rigtest.HangGuard, func() bool {
		return strings.Contains(r.output.String(), "switched to the task walk")
	}) {
		t.Errorf("the screen does not show the switch:\n%s", r.output)
	}
	r.must("stop", "stopped")
	errtest.Contains(t, errtest.Of(switchTo("walk")), "reset")
	terminate(t, r.cmd)

	log := checkClosed(t, r.cmd)
	checkVerified(t, log)
	hashes := rigtest.BeliefHashes(t, log)
	if want := task.Belief.Belief.Hash(); hashes[0] == want || !slices.Contains(hashes, want) {
		t.Errorf("no tick has the belief of the task")
	}
	switches := 0
	for record, err := range log.Records() {
		fatal.If(t, err)
		if record.Tick != nil && record.Tick.Flags.Has(controller.FlagSwitched) {
			switches++
		}
	}
	if switches != 1 {
		t.Errorf("%d ticks with a switch", switches)
	}
	saved, err := store.Load(taskstore.Last)
	if err != nil || saved.Belief.Belief.Hash() != task.Belief.Belief.Hash() {
		t.Errorf("run.state_dir has another belief than the task's: %v", err)
	}
	if s := saved.Belief.Sessions; len(s) != 2 || s[0] != task.Belief.Sessions[0] || strings.HasSuffix(s[1].ID, "-0") {
		t.Errorf("run.state_dir has the labels of %v, want those of the task and of the run from the switch on", s)
	}
}
