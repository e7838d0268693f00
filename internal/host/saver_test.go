package host

import (
	"os"
	"testing"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/link"
	"optibfm/internal/rigtest"
	"optibfm/internal/taskstore"
)

func TestBeliefSaver_SetsTheBeliefBeforeASwitchAside(t *testing.T) {
	const d = 3
	file := configs.Default()
	file.Controller = controller.DefaultConfig()
	store := taskstore.Store{State: t.TempDir()}
	segment, err := link.New(controller.Shape{Obs: 1, Action: 1, Latent: d}, 1)
	rigtest.Must(t, err)
	words, err := link.OpenWords(segment)
	rigtest.Must(t, err)
	belief, err := file.Controller.NewBelief(d)
	rigtest.Must(t, err)
	keeper, err := store.Lock()
	rigtest.Must(t, err)
	saver := &beliefSaver{
		keeper: keeper, template: taskTemplate{file, "model", "robot"}, belief: belief.Clone(), steps: &words.Steps,
		newest: make(chan savedState, 1),
	}
	state := controller.NewState(controller.Shape{Obs: 1, Action: 1, Latent: d})
	offer := func(label float64, switches uint64) uint64 {
		rigtest.Must(t, belief.Update([]float64{1, 2, 3}, label, 1))
		belief.State(state.Belief)
		state.Switches = switches
		saver.Offer(state, true)
		return belief.Hash()
	}
	offer(1, 0)
	first := offer(2, 0)
	rigtest.Must(t, saver.save(<-saver.newest))
	offer(3, 1) // the saver is too slow for this one
	offer(4, 1)
	previous := store.Path(taskstore.Previous)
	rigtest.Must(t, os.MkdirAll(previous+"/obstacle", 0o700))
	if err := saver.save(<-saver.newest); err == nil {
		t.Fatal("the belief before the switch is lost")
	}
	rigtest.Must(t, os.RemoveAll(previous))
	last := offer(5, 1)
	rigtest.Must(t, saver.save(<-saver.newest))
	rigtest.Must(t, saver.finish(nil))
	for name, want := range map[string]uint64{taskstore.Last: last, taskstore.Previous: first} {
		got, err := store.Load(name)
		rigtest.Must(t, err)
		if got.Belief.Belief.Hash() != want {
			t.Errorf("%s is another belief", name)
		}
	}
}
