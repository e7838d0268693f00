package cli

import (
	"slices"
	"testing"

	"optibfm/internal/fatal"
	"optibfm/internal/setup"
	"optibfm/internal/taskstore"
)

// TestRun_HostUsesTheTaskPriorAndVettedTasksOfTheControlProcess has the host process record them:
// the log then replays.
func TestRun_HostUsesTheTaskPriorAndVettedTasksOfTheControlProcess(t *testing.T) {
	t.Parallel()
	model, err := setup.OpenModel("embedded:rover")
	fatal.If(t, err)
	task := taskstore.Task{Name: "known", ModelHash: model.Fingerprint(), Z: make([]float64, model.Dims().Latent)}
	task.Z[1] = 0.3
	folder := t.TempDir()
	fatal.If(t, taskstore.Store{Dir: folder}.Save(task, false))
	cmd := program(t, "model.bundle="+"embedded:rover", "run.duration_s=2", "run.task_dir="+folder,
		"controller.explore.tasks=[known]", "controller.explore.within_deg=40", "controller.explore.turn_deg_per_s=30")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	log := checkClosed(t, cmd)
	if result := checkVerified(t, log); result.Verified == 0 {
		t.Error("no tick was verified")
	}
	c := log.Metadata().Control
	if c.Basis == nil || len(c.Explore.Vetted) != 1 || !slices.Equal(c.Explore.Vetted[0], task.Z) {
		t.Errorf("the host recorded basis %v, vetted %v", c.Basis != nil, c.Explore.Vetted)
	}
}
