package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/hal"
	"optibfm/posterior"
	"optibfm/rewardsrc"
	"optibfm/tflite"
)

func newBenchCommand() *cobra.Command {
	bundle, span := configs.EmbeddedRover, time.Second
	cmd := &cobra.Command{
		Use: "bench", Args: cobra.NoArgs,
		Short: "Time the belief, the model and a whole control tick on this machine",
		Long: `Time the belief, the model and a whole control tick on this machine, at the
dimensions of a bundle. Each row is the mean over --span; run it on an idle
machine, and compare ratios rather than runs of different days.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := openModel(configs.Model{Bundle: bundle})
			if err != nil {
				return err
			}
			return bench(cmd.OutOrStdout(), m, span)
		},
	}
	cmd.Flags().StringVar(&bundle, "bundle", bundle, "the model: embedded:rover, or the folder of a bundle")
	cmd.Flags().DurationVar(&span, "span", span, "how long each is repeated")
	return cmd
}

// measured is one row of the table.
type measured struct {
	name string
	call func() error
}

func bench(out io.Writer, m networks, span time.Duration) error {
	d := m.Dims()
	fmt.Fprintf(out, "%s: obs %d, action %d, d %d, ensemble of %d\n\n", m.title(), d.Obs, d.Action, d.Latent, d.Ensemble)
	rows, models, err := benchRows(m)
	defer func() { _ = closeModels(models...) }()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, r := range rows {
		perCall, allocs, err := timeCalls(r.call, span)
		if err != nil {
			return fmt.Errorf("bench: %s: %w", r.name, err)
		}
		fmt.Fprintf(table, "%s\t%.2f µs\t%.0f allocs\t\n", r.name, float64(perCall.Nanoseconds())/1000, allocs)
	}
	return table.Flush()
}

// benchRows returns the rows and the models in them, which the caller releases.
func benchRows(m networks) (rows []measured, models []tflite.Model, err error) {
	d := m.Dims()
	if rows, err = beliefRows(d.Latent); err != nil {
		return nil, nil, err
	}
	bare, err := newBenchAgent(stubModel{d}, d)
	if err != nil {
		return nil, nil, err
	}
	rows = append(rows, measured{"control tick without networks", bare.tick})
	network, err := m.evaluator(configs.Default())
	if err != nil {
		return nil, nil, err
	}
	models = append(models, network)
	whole, err := newBenchAgent(network, d)
	if err != nil {
		return nil, models, err
	}
	rows = append(rows, measured{"control tick, φ and π included", whole.tick})
	for _, strategy := range []string{controller.Thompson, controller.UCB} {
		plan, searcher, err := newBenchPlan(m, strategy)
		if err != nil {
			return nil, models, err
		}
		models = append(models, searcher)
		rows = append(rows, measured{"plan, " + strategy, plan})
	}
	return rows, models, nil
}

func beliefRows(d int) ([]measured, error) {
	belief, err := posterior.New(d, 1, 0.999)
	if err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(1, 2))
	const psis = 256
	phi, z, psi, scores := make([]float64, d), make([]float64, d), make([]float64, psis*d), make([]float64, psis)
	for _, x := range [][]float64{phi, psi} {
		for i := range x {
			x[i] = rng.NormFloat64()
		}
	}
	return []measured{
		{"belief: update", func() error { return belief.Update(phi, 0.5, 1) }},
		{"belief: update and ẑ", func() error { err := belief.Update(phi, 0.5, 1); belief.Mean(z); return err }},
		{"belief: forgetting", func() error { belief.Forget(); return nil }},
		{"belief: D-gap", func() error { belief.NormSq(phi); return nil }},
		{"belief: UCB of 256 ψ", func() error { belief.UCB(scores, psi, psis, 1); return nil }},
		{"belief: hash", func() error { belief.Hash(); return nil }},
	}, nil
}

// benchAgent runs an agent in which every tick has a label.
type benchAgent struct {
	agent *controller.Agent
	t     *controller.Tick
}

func newBenchAgent(model tflite.Model, d tflite.Dims) (*benchAgent, error) {
	cfg := controller.DefaultConfig()
	cfg.Rho = 0.999
	shape := controller.Shape{Obs: d.Obs, Action: d.Action, Latent: d.Latent}
	parts := controller.Parts{Robot: newStubRobot(d), Source: &stubSource{}, Model: model, Plans: newStubPlans(shape)}
	agent, err := controller.NewAgent(cfg, parts)
	if err != nil {
		return nil, err
	}
	return &benchAgent{agent: agent, t: controller.NewTick(shape)}, agent.Arm()
}

func (b *benchAgent) tick() error {
	b.t.Index++
	b.t.Elapsed = 1
	return b.agent.Step(b.t)
}

// newBenchPlan returns one plan of a strategy, on one processor, and the model
// that it searches with.
func newBenchPlan(m networks, strategy string) (func() error, tflite.Model, error) {
	file := configs.Default()
	file.Controller.Strategy = strategy
	searcher, _, err := m.searcher(file, 1)
	if err != nil {
		return nil, nil, err
	}
	planner, err := controller.NewPlanner(file.Controller, searcher)
	if err != nil {
		return nil, nil, errors.Join(err, closeModels(searcher))
	}
	d := m.Dims()
	plans := newStubPlans(controller.Shape{Obs: d.Obs, Action: d.Action, Latent: d.Latent})
	belief, err := posterior.New(d.Latent, 1, 1)
	if err != nil {
		return nil, nil, errors.Join(err, closeModels(searcher))
	}
	belief.State(plans.state.Belief)
	plans.state.Valid, plans.state.Hash = 1, belief.Hash()
	return func() error {
		plans.state.Next++
		_, err := planner.Plan(plans.state, plans.plan)
		return err
	}, searcher, nil
}

// stubRobot senses and acts at no cost.
type stubRobot struct{ spec hal.Spec }

func newStubRobot(d tflite.Dims) *stubRobot {
	spec := hal.Spec{Name: "bench", Period: 20 * time.Millisecond}
	for i := range d.Obs {
		spec.Obs = append(spec.Obs, hal.Channel{Name: fmt.Sprintf("o%d", i)})
	}
	for i := range d.Action {
		spec.Action = append(spec.Action, hal.Channel{Name: fmt.Sprintf("a%d", i), Min: -1, Max: 1})
	}
	return &stubRobot{spec}
}

func (r *stubRobot) Spec() hal.Spec                     { return r.spec }
func (r *stubRobot) Sense(obs []float32) (int64, error) { obs[0] = 0.1; return 0, nil }
func (r *stubRobot) Act([]float32) error                { return nil }
func (r *stubRobot) Arm() error                         { return nil }
func (r *stubRobot) Halt() error                        { return nil }

// stubSource labels every tick.
type stubSource struct{ id uint64 }

func (s *stubSource) Ask(r rewardsrc.Request) {}
func (s *stubSource) Halt() error             { return nil }
func (s *stubSource) Poll(dst []rewardsrc.Label) int {
	s.id++
	dst[0] = rewardsrc.Label{ID: s.id, Tick: s.id, Kind: rewardsrc.Value, Value: 0.5}
	return 1
}

// stubPlans confirms one plan for ever.
type stubPlans struct {
	state *controller.State
	plan  *controller.Plan
}

func newStubPlans(s controller.Shape) *stubPlans {
	p := &stubPlans{state: controller.NewState(s), plan: controller.NewPlan(s)}
	for i := range p.plan.Z {
		p.plan.Z[i] = 1
	}
	return p
}

func (p *stubPlans) State() *controller.State { return p.state }
func (p *stubPlans) Offer() error             { p.plan.Confirmed = p.state.Tick(); return nil }
func (p *stubPlans) Latest() *controller.Plan { return p.plan }

// stubModel costs nothing.
type stubModel struct{ dims tflite.Dims }

func (m stubModel) Dims() tflite.Dims { return m.dims }
func (m stubModel) Phi(dst []float64, obs []float32) error {
	for i := range dst {
		dst[i] = 0.1
	}
	return nil
}
func (m stubModel) Act(dst, obs []float32, z []float64) error { clear(dst); return nil }
func (m stubModel) Search(obs, candidates []float32, belief tflite.Belief) (int, float32, error) {
	return 0, 0, nil
}
