package main

import (
	"errors"

	"optibfm/controller"
	"optibfm/posterior"
	"optibfm/tflite"
)

// controlSection is what the control thread computes.
type controlSection struct {
	rows           []*timed
	phi, act, tick *timed
}

func (b *benchmark) openControl() error {
	if err := b.openBelief(); err != nil {
		return err
	}
	bare, err := b.newBenchAgent(stubModel{b.model.Dims()})
	if err != nil {
		return err
	}
	b.control.rows = append(b.control.rows, newTimed("tick without networks", bare.step))
	if err := b.openNetworks(); err != nil {
		return err
	}
	network, err := b.network(1)
	if err != nil {
		return err
	}
	whole, err := b.newBenchAgent(network)
	if err != nil {
		return err
	}
	b.control.tick = newTimed("control tick", whole.step)
	b.control.rows = append(b.control.rows, b.control.tick)
	return nil
}

// openBelief has a belief that forgets, whatever the configuration's does: it
// stays the same however long it is timed.
func (b *benchmark) openBelief() error {
	const rho = 0.999
	d := b.model.Dims().Latent
	belief, err := posterior.New(d, 1, rho)
	if errors.Is(err, posterior.ErrForgetsPrior) {
		belief, err = posterior.New(d, 1, rho, posterior.WithExactRestore())
	}
	if err != nil {
		return err
	}
	phi, z := b.cases.phi, make([]float64, d)
	update := func() error { return belief.Update(phi, 0.5, 1) }
	b.control.rows = append(b.control.rows,
		newTimed("belief: update", update),
		newTimed("belief: update and ẑ", func() error { err := update(); belief.Mean(z); return err }),
		newTimed("belief: forgetting", func() error { belief.Forget(); return nil }),
		newTimed("belief: D-gap", func() error { belief.NormSq(phi); return nil }),
		newTimed("belief: hash", func() error { belief.Hash(); return nil }),
	)
	return nil
}

// openNetworks has φ and π alone.
func (b *benchmark) openNetworks() error {
	d := b.model.Dims()
	one, err := b.network(1)
	if err != nil {
		return err
	}
	other, err := b.network(1)
	if err != nil {
		return err
	}
	phi, z, action := make([]float64, d.Latent), make([]float64, d.Latent), make([]float32, d.Action)
	b.cases.belief.Mean(z)
	b.control.phi = newTimed("φ", func() error { return one.Phi(phi, b.cases.next()) }).on(one)
	b.control.act = newTimed("π", func() error { return other.Act(action, b.cases.next(), z) }).on(other)
	b.control.rows = append(b.control.rows, b.control.phi, b.control.act)
	return nil
}

// benchAgent runs an agent in which every tick has a label.
type benchAgent struct {
	agent *controller.Agent
	tick  *controller.Tick
}

func (b *benchmark) newBenchAgent(model tflite.Model) (*benchAgent, error) {
	cfg := b.file.Controller
	cfg.Strategy = controller.UCB
	d := model.Dims()
	parts := controller.Parts{
		Robot: newStubRobot(d, b.file.Loop.Period(), b.cases), Source: &stubSource{}, Model: model, Plans: newStubPlans(b.shape()),
	}
	agent, err := controller.NewAgent(cfg, parts)
	if err != nil {
		return nil, err
	}
	return &benchAgent{agent: agent, tick: controller.NewTick(b.shape())}, agent.Arm()
}

func (b *benchmark) shape() controller.Shape {
	d := b.model.Dims()
	return controller.Shape{Obs: d.Obs, Action: d.Action, Latent: d.Latent}
}

var errNoLabel = errors.New("the tick had no label: a mistake in this program")

func (a *benchAgent) step() error {
	a.tick.Index++
	a.tick.Elapsed = 1
	if err := a.agent.Step(a.tick); err != nil {
		return err
	}
	if a.tick.NumLabels != 1 || a.tick.Labels[0].Outcome != controller.Applied {
		return errNoLabel
	}
	return nil
}
