package host

import (
	"os"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/internal/beliefstore"
	"optibfm/internal/link"
)

func TestBeliefSaver_SetsTheBeliefBeforeASwitchAside(t *testing.T) {
	const d = 3
	file := configs.Default()
	file.Controller = controller.DefaultConfig()
	file.Run.StateDir = t.TempDir()
	segment, err := link.New(controller.Shape{Obs: 1, Action: 1, Latent: d}, 1)
	if err != nil {
		t.Fatal(err)
	}
	words, err := link.OpenWords(segment)
	if err != nil {
		t.Fatal(err)
	}
	saver, err := openBeliefSaver(file, "model", hal.Spec{}, d, &words.Steps, nil)
	if err != nil {
		t.Fatal(err)
	}
	belief, err := file.Controller.NewBelief(d)
	if err != nil {
		t.Fatal(err)
	}
	state := controller.NewState(controller.Shape{Obs: 1, Action: 1, Latent: d})
	offer := func(label float64, switches uint64) uint64 {
		if err := belief.Update([]float64{1, 2, 3}, label, 1); err != nil {
			t.Fatal(err)
		}
		belief.State(state.Belief)
		state.Switches = switches
		saver.Offer(state, true)
		return belief.Hash()
	}
	offer(1, 0)
	first := offer(2, 0)
	if err := saver.save(<-saver.newest); err != nil {
		t.Fatal(err)
	}
	offer(3, 1) // the saver is too slow for this one
	offer(4, 1)
	old := beliefstore.Path(file.Run.StateDir) + ".old"
	if err := os.MkdirAll(old+"/obstacle", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := saver.save(<-saver.newest); err == nil {
		t.Fatal("the belief before the switch is lost")
	}
	if err := os.RemoveAll(old); err != nil {
		t.Fatal(err)
	}
	last := offer(5, 1)
	if err := saver.save(<-saver.newest); err != nil {
		t.Fatal(err)
	}
	if err := saver.finish(nil); err != nil {
		t.Fatal(err)
	}
	if got, err := beliefstore.Load(file.Run.StateDir); err != nil || got.Belief.Hash() != last {
		t.Errorf("saved: %v", err)
	}
	data, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := beliefstore.Parse(data); err != nil || got.Belief.Hash() != first {
		t.Errorf("set aside: %v", err)
	}
}
