package theory

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"optibfm/controller"
	"optibfm/posterior"
	"optibfm/rewardsrc/scripted"
)

// Trial is one robot that infers one task with the code of the program: controller.Agent with
// controller.Planner in lockstep, the simulated operator, who labels every state, and the belief
// and schedules of package posterior.
type Trial struct {
	Solution *Solution
	Task     Task
	Config   controller.Config
	Exact    bool    // plan with Exact instead of the planner; the strategy must be ucb
	Noise    float64 // standard deviation of a label
	Episodes int
	Seed     uint64 // of the robot, the operator and the planner

	// Sets are schedules whose confidence sets are compared with z* in every tick. They do not
	// influence the robot.
	Sets []posterior.Schedule
	// Slip is δ′ of the closed bound, see Bound.
	Slip float64
}

// Trace is the result of a trial. Sums start at the first episode.
type Trace struct {
	// Regret after each episode is the sum of V*(s₀) - V^{π_z}(s₀), in exact values of the rewards
	// with their nonlinear part. If z changes within an episode, it is the sum of V*(s) - Q*(s, a)
	// over the steps, with the same expectation.
	Regret []float64
	// Realised is the sum of 2β‖ψ(s₀)‖_{V⁻¹} over the plans: a bound of the regret while z* is in
	// every confidence set. Only for ucb with β, one plan for each episode and linear rewards.
	Realised []float64
	// Closed is Bound after each episode, for the same trials.
	Closed []float64
	// Ratio is the largest ‖z* - ẑ‖_V/β of each of Trial.Sets. At most 1: z* was in all its
	// confidence sets.
	Ratio []float64
	// Left is the number of labels at which z* was outside for the first time, of each of
	// Trial.Sets; -1: never.
	Left []int
	// Plans and Optimistic count the plans of ucb, and those with a score of at least V*(s).
	Plans, Optimistic int
	Labels            int
}

// runner is the state of a running trial.
type runner struct {
	Trial
	robot  *Robot
	agent  *controller.Agent
	plans  controller.Plans
	tick   *controller.Tick
	flat   []float64 // the belief's state
	mean   []float64
	truth  *Solution // has the nonlinear part of the reward as another feature
	z      []float64 // of the reward in truth
	done   []float64 // ψ in truth of the last action, then the optimal policy
	best   int       // the optimal policy
	policy int       // the last one, where policy iteration starts
	bound  *Bound
	trace  Trace
	regret float64
	sum    float64 // of Trace.Realised
}

// Run runs the trial.
func (t Trial) Run() (Trace, error) {
	r, err := t.prepare()
	if err != nil {
		return Trace{}, fmt.Errorf("theory: trial: %w", err)
	}
	lengths := rand.New(rand.NewPCG(t.Seed, lengthStream))
	seeds := rand.New(rand.NewPCG(t.Seed, episodeStream))
	for episode := range t.Episodes {
		if err := r.episode(uint32(episode), steps(lengths, t.Solution.mdp.Gamma), seeds.Uint64()); err != nil {
			return Trace{}, fmt.Errorf("theory: trial: episode %d: %w", episode, err)
		}
	}
	return r.trace, nil
}

// steps draws the length of an episode, at least 1.
func steps(rng *rand.Rand, gamma float64) int {
	return 1 + int(math.Log(1-rng.Float64())/math.Log(gamma))
}

func (t Trial) prepare() (*runner, error) {
	m := t.Solution.mdp
	if len(t.Task.Z) != m.Dim || (t.Task.Misfit != nil && len(t.Task.Misfit) != m.States) {
		return nil, fmt.Errorf("task: found %d numbers in z and %d in misfit, want %d, and %d or none",
			len(t.Task.Z), len(t.Task.Misfit), m.Dim, m.States)
	}
	t.Config.Seed = t.Seed
	t.Config.Gate.Off = true // the operator labels every state unasked
	r := &runner{
		Trial: t, robot: NewRobot(m, t.Task), flat: make([]float64, posterior.StateLen(m.Dim)),
		mean: make([]float64, m.Dim),
	}
	if err := errors.Join(r.findTruth(), r.buildAgent()); err != nil {
		return nil, err
	}
	r.tick = controller.NewTick(r.agent.Shape())
	r.best, r.done = r.truth.Optimal(r.z, 0), make([]float64, len(r.z))
	r.trace = Trace{Ratio: make([]float64, len(t.Sets)), Left: make([]int, len(t.Sets))}
	for i := range r.trace.Left {
		r.trace.Left[i] = -1
	}
	if t.Config.Beta.Schedule == controller.Theory && t.Task.Misfit == nil {
		r.bound = NewBound(m, t.Config, t.Slip)
	}
	return r, r.agent.Arm(0)
}

// findTruth finds the exact values of the task's rewards. The policies have the same numbers as in
// Solution.
func (r *runner) findTruth() (err error) {
	r.truth, r.z = r.Solution, r.Task.Z
	if r.Task.Misfit == nil {
		return nil
	}
	r.truth, err = Solve(r.Solution.mdp.withFeature(r.Task.Misfit))
	r.z = append(slices.Clone(r.z), 1)
	return err
}

// buildAgent makes the agent with its operator and its planner.
func (r *runner) buildAgent() (err error) {
	if r.plans, err = r.planner(); err != nil {
		return err
	}
	cfg := scripted.DefaultConfig()
	cfg.NoiseStd, cfg.Seed = r.Noise, r.Seed
	operator, err := scripted.New(cfg)
	if err != nil {
		return err
	}
	r.agent, err = controller.NewAgent(r.Config, controller.Parts{
		Robot: r.robot, Source: operator, Model: NewModel(r.Solution), Plans: r.plans,
	})
	return err
}

func (r *runner) planner() (controller.Plans, error) {
	if !r.Exact {
		planner, err := controller.NewPlanner(r.Config, NewModel(r.Solution))
		if err != nil {
			return nil, err
		}
		return controller.NewLockstep(planner), nil
	}
	set := confidence(r.Config)
	if r.Config.Strategy != controller.UCB || set == nil {
		return nil, fmt.Errorf("exact search: found strategy %s with beta %s, want %s with the β of a confidence set",
			r.Config.Strategy, r.Config.Beta.Schedule, controller.UCB)
	}
	return NewExact(r.Solution, r.Config, set)
}

// confidence returns the controller's schedule for cfg, nil unless it is that of a confidence set.
func confidence(cfg controller.Config) posterior.Schedule {
	theory := posterior.Theory{S: cfg.Beta.S, Sigma: 1, Delta: cfg.Beta.Delta}
	switch cfg.Beta.Schedule {
	case controller.Theory:
		return theory
	case controller.Misspecified:
		return posterior.Misspecified{Schedule: theory, Zeta: cfg.Beta.Zeta, L: cfg.Beta.L}
	}
	return nil
}

// episode runs n steps in n+1 ticks, the last of them without an action.
func (r *runner) episode(episode uint32, n int, seed uint64) error {
	if err := r.robot.Reset(seed); err != nil {
		return err
	}
	for step := range n + 1 {
		if err := r.step(episode, uint32(step), step == n); err != nil {
			return err
		}
	}
	r.finishEpisode(n)
	return nil
}

func (r *runner) step(episode, step uint32, last bool) error {
	t := r.tick
	t.Index, t.Elapsed = uint64(r.trace.Labels), min(uint64(r.trace.Labels), 1)
	t.Episode, t.Step, t.Flags = episode, step, 0
	if step == 0 {
		t.Flags |= controller.FlagEpisodeStart
	}
	if last {
		t.Flags |= controller.FlagEpisodeEnd
	}
	if err := r.agent.Step(t); err != nil {
		return err
	}
	if t.NumLabels != 1 || t.Labels[0].Outcome != controller.Applied {
		return errors.New("the label was not applied")
	}
	r.trace.Labels++
	r.checkSets()
	if last {
		return nil
	}
	return r.account(step == 0)
}

// checkSets compares the confidence sets with z*.
func (r *runner) checkSets() {
	if len(r.Sets) == 0 {
		return
	}
	belief := r.agent.Learner().Belief()
	distance := r.distance(belief)
	for i, set := range r.Sets {
		ratio := distance / set.Beta(belief)
		r.trace.Ratio[i] = max(r.trace.Ratio[i], ratio)
		if ratio > 1 && r.trace.Left[i] < 0 {
			r.trace.Left[i] = r.trace.Labels
		}
	}
}

// distance returns ‖z* - ẑ‖ in V = RᵀR, from the belief's packed R.
func (r *runner) distance(belief *posterior.Belief) float64 {
	belief.State(r.flat)
	belief.Mean(r.mean)
	d, at, sum := len(r.mean), 0, 0.0
	for i := range d {
		row := 0.0
		for j := i; j < d; j++ {
			row += r.flat[at] * (r.Task.Z[j] - r.mean[j])
			at++
		}
		sum += row * row
	}
	return math.Sqrt(sum)
}

// account adds the regret and the optimism of the tick.
func (r *runner) account(first bool) error {
	t := r.tick
	state := int(t.Obs[0])
	plan := r.plans.Latest()
	if plan.Beta > 0 && plan.Tick == t.Index {
		if err := r.checkBeta(plan); err != nil {
			return err
		}
		r.trace.Plans++
		if plan.Score >= r.value(r.best, state) {
			r.trace.Optimistic++
		}
	}
	if r.Config.Replan > 0 {
		r.truth.AfterAction(r.done, r.best, state, choice(t.Action[0], r.Solution.mdp.Actions))
		r.regret += r.value(r.best, state) - dot(r.z, r.done)
		return nil
	}
	if first {
		r.policy = r.Solution.Optimal(t.Z, r.policy)
		r.regret += r.value(r.best, state) - r.value(r.policy, state)
		// The plan was made with this belief, which has the label of the tick.
		psi := r.Solution.Psi(r.policy, state)
		r.sum += 2 * plan.Beta * math.Sqrt(r.agent.Learner().Belief().NormSq(psi))
	}
	return nil
}

// value returns the value of a policy in a state.
func (r *runner) value(policy, state int) float64 { return dot(r.z, r.truth.Psi(policy, state)) }

// checkBeta reports a plan whose β is not that of the checked schedule.
func (r *runner) checkBeta(plan *controller.Plan) error {
	set := confidence(r.Config)
	if set == nil {
		return nil
	}
	want := set.Beta(r.agent.Learner().Belief())
	if math.Abs(plan.Beta-want) > 1e-9*want {
		return fmt.Errorf("the planner's β is %g, the schedule's %g", plan.Beta, want)
	}
	return nil
}

// finishEpisode adds the values of an episode of n steps.
func (r *runner) finishEpisode(n int) {
	r.trace.Regret = append(r.trace.Regret, r.regret)
	if r.bound == nil || r.Config.Replan > 0 || r.Config.Strategy != controller.UCB {
		return
	}
	r.trace.Realised = append(r.trace.Realised, r.sum)
	r.trace.Closed = append(r.trace.Closed, r.bound.Add(n))
}
