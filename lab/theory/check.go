package theory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"optibfm/controller"
	"optibfm/posterior"
)

// ErrConfig is wrapped by every error about a Config.
var ErrConfig = errors.New("theory: configuration")

// Config is the size of a check.
type Config struct {
	Runs int    // of each coverage experiment, at least 40; regret experiments have a twentieth, at least 20
	Seed uint64 // of everything
	// Progress, if not nil, receives the name of each part before it is measured.
	Progress func(what string)
}

// DefaultConfig has 1,000 runs.
func DefaultConfig() Config { return Config{Runs: 1000, Seed: 1} }

// Constants of all experiments.
const (
	noise    = 0.3 // σ of a label; rewards are within ±1
	radius   = 1.0 // S, and the norm of z* unless scaled
	slip     = 0.05
	delta    = 0.1 // of experiments with a single δ
	zeta     = 0.2 // of nonlinear rewards
	pool     = 20  // decision processes of each family; run i has number i modulo pool
	sqrt     = 0.5 // the exponent of √n
	tooNoisy = 3   // times σ: noise that the schedule does not account for
	tasks    = 12  // of the search for the worst; each has 0.7 times the gaps of the previous one
)

// deltas are the δ of the coverage experiments.
var deltas = []float64{0.5, 0.2, 0.1, 0.05, 0.01}

// Family is a kind of decision process.
type Family string

// The families.
const (
	FamilyRandom Family = "random"
	FamilyFork   Family = "fork"
)

// checker holds what the experiments share.
type checker struct {
	ctx    context.Context
	cfg    Config
	solved map[Family][]*Solution
	report Report

	coverEpisodes, regretEpisodes int
}

// Check measures everything and returns a report, which is the same for the same configuration on
// the same machine. It stops when ctx ends.
func Check(ctx context.Context, cfg Config) (Report, error) {
	c, err := newChecker(ctx, cfg)
	if err != nil {
		return Report{}, err
	}
	err = c.run()
	return c.report, err
}

func newChecker(ctx context.Context, cfg Config) (*checker, error) {
	if cfg.Runs < 40 {
		return nil, fmt.Errorf("%w: runs: found %d; use at least 40", ErrConfig, cfg.Runs)
	}
	return &checker{
		ctx: ctx, cfg: cfg, solved: map[Family][]*Solution{}, report: Report{Runs: cfg.Runs, Seed: cfg.Seed},
		coverEpisodes: 200, regretEpisodes: 1000,
	}, nil
}

func (c *checker) run() error {
	for _, part := range []struct {
		what string
		run  func() error
	}{
		{"solving the decision processes", c.solve},
		{"coverage", c.coverage},
		{"nonlinear rewards", c.misspecified},
		{"regret with nonlinear rewards", c.misspecifiedRegret},
		{"regret", c.regret},
		{"regret on the worst task", c.worstTask},
		{"regret of episodes of a fixed length", c.horizons},
	} {
		if c.cfg.Progress != nil {
			c.cfg.Progress(part.what)
		}
		if err := part.run(); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) solve() error {
	for family, create := range map[Family]func(uint64) MDP{FamilyRandom: Random, FamilyFork: Fork} {
		solutions := make([]*Solution, pool)
		err := c.each(pool, func(i int) (err error) {
			solutions[i], err = Solve(create(c.cfg.Seed + uint64(i)))
			return err
		})
		if err != nil {
			return err
		}
		c.solved[family] = solutions
	}
	return nil
}

// each calls work for 0 to n-1 on all processors and returns the errors.
func (c *checker) each(n int, work func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, runtime.GOMAXPROCS(0))
	var wait sync.WaitGroup
	for worker := range errs {
		wait.Go(func() {
			for errs[worker] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[worker] = c.ctx.Err(); errs[worker] == nil {
					errs[worker] = work(i)
				}
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// trials runs n trials of a method on a family. Run i has the same process, task and random numbers
// for every method.
func (c *checker) trials(family Family, n int, method method) ([]Trace, error) {
	traces := make([]Trace, n)
	err := c.each(n, func(i int) (err error) {
		traces[i], err = c.trial(family, i, method).Run()
		return err
	})
	return traces, err
}

func (c *checker) trial(family Family, i int, method method) Trial {
	rng := rand.New(rand.NewPCG(c.cfg.Seed, uint64(i)))
	solution := c.solved[family][i%pool]
	t := Trial{
		Solution: solution, Config: method.config, Exact: method.exact,
		Noise: noise, Episodes: method.episodes, Slip: slip,
		Task: Task{Z: direction(rng, solution.mdp.Dim)}, Seed: rng.Uint64(),
	}
	for j := range t.Task.Z {
		t.Task.Z[j] *= radius * method.scale
	}
	if method.noisier > 0 {
		t.Noise *= method.noisier
	}
	if method.misfit > 0 {
		t.Task.Misfit = make([]float64, solution.mdp.States)
		for s := range t.Task.Misfit {
			t.Task.Misfit[s] = method.misfit * float64(2*rng.IntN(2)-1)
		}
	}
	t.Sets = method.sets
	return t
}

// method is a controller with a kind of task.
type method struct {
	name     string
	config   controller.Config
	exact    bool
	episodes int
	scale    float64 // of z*
	noisier  float64 // the true noise in units of the belief's; 0: 1
	misfit   float64 // |m(s)|
	sets     []posterior.Schedule
}

// ucb returns the program's default with the β of the theorem, the noise of the experiments and one
// plan for each episode.
func ucb(delta float64, episodes int) method {
	cfg := controller.DefaultConfig()
	cfg.Sigma, cfg.Replan = noise, 0
	cfg.Beta = controller.Beta{Schedule: controller.Theory, S: radius, Delta: delta}
	return method{name: "ucb-EP", config: cfg, episodes: episodes, scale: 1}
}

func (m method) named(name string) method { m.name = name; return m }

// misfitted adds ±ζ to the reward of each state.
func (m method) misfitted() method { m.misfit = zeta; return m }

func (m method) strategy(strategy string) method { m.config.Strategy = strategy; return m }

func (m method) everyTick() method { m.config.Replan = 1; return m }

func (m method) exactly() method { m.exact = true; return m }

// greedy follows the mean of the belief without an uncertainty bonus.
func (m method) greedy() method {
	m.config.Beta = controller.Beta{Schedule: controller.Constant}
	m.config.Candidates = 1
	return m
}

// coverage counts how often the confidence sets contain z*.
func (c *checker) coverage() error {
	for _, delta := range deltas {
		m := ucb(delta, c.coverEpisodes)
		m.config.Candidates = 32 // coverage does not depend on the policy: a smaller search suffices
		m.sets = []posterior.Schedule{confidence(m.config)}
		if err := c.cover(m, []float64{delta}, false); err != nil {
			return err
		}
	}
	m := ucb(delta, c.coverEpisodes).named("thompson, every step").strategy(controller.Thompson).everyTick()
	for _, delta := range deltas {
		m.sets = append(m.sets, confidence(ucb(delta, 0).config))
	}
	if err := c.cover(m, deltas, false); err != nil {
		return err
	}
	m.name, m.noisier = fmt.Sprintf("noise %d times what β knows of", tooNoisy), tooNoisy
	return c.cover(m, deltas, true)
}

// alternating runs a method on both families in turn.
func (c *checker) alternating(m method) ([]Trace, error) {
	traces := make([]Trace, c.cfg.Runs)
	return traces, c.each(len(traces), func(i int) (err error) {
		traces[i], err = c.trial([]Family{FamilyRandom, FamilyFork}[i%2], i/2, m).Run()
		return err
	})
}

// cover adds a claim about each of the method's sets.
func (c *checker) cover(m method, deltas []float64, control bool) error {
	traces, err := c.alternating(m)
	if err != nil {
		return err
	}
	for i, delta := range deltas {
		c.report.addCoverage(m.name, delta, control, ratios(traces, i))
	}
	return nil
}

func ratios(traces []Trace, set int) []float64 {
	r := make([]float64, len(traces))
	for i, t := range traces {
		r[i] = t.Ratio[set]
	}
	return r
}

// unbounded is a norm far above that of all features. A configuration has no infinite numbers.
const unbounded = 1e100

// widened returns ucb with rewards that are off by ±ζ and with the β′ of
// posterior.Misspecified for features of at most that norm. An unbounded norm gives β + ζ√n.
func widened(episodes int, length float64) method {
	m := ucb(delta, episodes).named("β′").misfitted()
	m.config.Beta.Schedule, m.config.Beta.Zeta, m.config.Beta.L = controller.Misspecified, zeta, length
	return m
}

// misspecified adds ±ζ to the reward of each state and counts how often the sets contain z*.
func (c *checker) misspecified() error {
	m := widened(c.coverEpisodes, 1)
	m.sets = []posterior.Schedule{
		confidence(m.config), confidence(widened(0, unbounded).config), confidence(ucb(delta, 0).config),
	}
	traces, err := c.alternating(m)
	if err != nil {
		return err
	}
	c.report.addMisspecified(traces)
	return nil
}

// misspecifiedRegret measures the regret with each width.
func (c *checker) misspecifiedRegret() error {
	for _, m := range []method{
		widened(c.regretEpisodes, 1),
		widened(c.regretEpisodes, unbounded).named("β + ζ√n"),
		ucb(delta, c.regretEpisodes).named("β").misfitted(),
		ucb(delta, c.regretEpisodes).named("thompson-EP").strategy(controller.Thompson).misfitted(),
		ucb(delta, c.regretEpisodes).named("random").strategy(controller.Random).misfitted(),
	} {
		traces, err := c.trials(FamilyFork, max(20, c.cfg.Runs/20), m)
		if err != nil {
			return err
		}
		c.report.addMisspecifiedRegret(m.name, traces)
	}
	return nil
}

// regret measures the growth of the regret and compares it with the bounds.
func (c *checker) regret() error {
	runs := max(20, c.cfg.Runs/20)
	ep := ucb(delta, c.regretEpisodes)
	for _, family := range []Family{FamilyRandom, FamilyFork} {
		for _, m := range []method{
			ep,
			ep.named("ucb-EP, exact search").exactly(),
			ep.named("ucb").everyTick(),
			ep.named("thompson-EP").strategy(controller.Thompson),
			ep.named("thompson").strategy(controller.Thompson).everyTick(),
			ep.named("random").strategy(controller.Random),
			ep.named("greedy").greedy(),
		} {
			traces, err := c.trials(family, runs, m)
			if err != nil {
				return err
			}
			c.report.addRegret(family, m.name, traces)
		}
	}
	return nil
}

// worstTask measures the √n growth. For a single task the gaps between policies are fixed, and the
// regret grows more slowly in the end; the bound is about the worst task for each n. So worstTask
// runs tasks with ever smaller gaps and takes the worst for each n.
func (c *checker) worstTask() error {
	runs := max(20, c.cfg.Runs/20)
	for _, m := range []method{
		ucb(delta, c.regretEpisodes).named("ucb-EP, exact search").exactly(),
		ucb(delta, c.regretEpisodes).named("thompson-EP").strategy(controller.Thompson),
	} {
		var byTask [][]Trace
		for task := range tasks {
			m.scale = math.Pow(0.5, float64(task)/2)
			traces, err := c.trials(FamilyFork, runs, m)
			if err != nil {
				return err
			}
			byTask = append(byTask, traces)
		}
		c.report.addWorst(m.name, byTask)
	}
	return nil
}
