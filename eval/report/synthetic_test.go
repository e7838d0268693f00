package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"optibfm/eval"
)

// lab makes rows of experiments that never happened, with known means.
type lab struct {
	rng    *rand.Rand
	trials int
	models int
	spread float64             // standard deviation of a trial's share of the oracle's return
	tasks  map[string][]string // by environment
	rows   []eval.Row
}

func newLab() *lab {
	return &lab{
		rng: rand.New(rand.NewPCG(1, 2)), trials: 6, models: 3, spread: 0.03,
		tasks: map[string][]string{
			"cheetah": {"run", "walk"}, "quadruped": {"jump", "stand"}, "walker": {"run", "stand", "walk"},
		},
	}
}

// oracleReturn is what the oracle gets on a task on average.
func oracleReturn(env, task string, model int) float64 {
	return 200 + 100*float64(len(task)) + 20*float64(len(env)) + 15*float64(model)
}

// each calls do for every trial of a method.
func (l *lab) each(envs []string, do func(env, task string, model, trial int)) {
	for _, env := range envs {
		for _, task := range l.tasks[env] {
			for model := range l.models {
				for trial := range l.trials {
					do(env, task, model, trial)
				}
			}
		}
	}
}

func (l *lab) envs() []string {
	var envs []string
	for env := range l.tasks {
		envs = append(envs, env)
	}
	slices.Sort(envs)
	return envs
}

func (l *lab) row(experiment, env, task, method, params string, model, trial int) eval.Row {
	return eval.Row{
		Experiment: experiment, Env: env, Task: task, Bundle: fmt.Sprintf("models/%s-%d", env, model), BFMSeed: model, Method: method, Params: params,
		Trial: trial, Seed: uint64(1000*model + trial), Version: "v0.6.0", ModelHash: fmt.Sprintf("%016x", 7919*(model+1)*len(env)), ProtocolHash: "5eed" + experiment,
	}
}

func (l *lab) add(row eval.Row, measure string, x, value float64) {
	row.Measure, row.X, row.Value = measure, x, value
	l.rows = append(l.rows, row)
}

// returns adds trials of a method whose share of the oracle's return in an
// episode is known but for noise of the trial and of the episode.
func (l *lab) returns(experiment, method, params string, episodes int, share func(episode int) float64) {
	l.each(l.envs(), func(env, task string, model, trial int) {
		row := l.row(experiment, env, task, method, params, model, trial)
		luck := 1 + l.spread*l.rng.NormFloat64()
		for episode := range episodes {
			value := oracleReturn(env, task, model) * (share(episode)*luck + l.spread/2*l.rng.NormFloat64())
			l.add(row, eval.MeasureReturn, float64(episode), value)
		}
	})
}

func (l *lab) rates(experiment, method, params string, hz float64) {
	l.each(l.envs(), func(env, task string, model, trial int) {
		l.add(l.row(experiment, env, task, method, params, model, trial), eval.MeasureHz, 10_000, hz*(1+0.02*l.rng.NormFloat64()))
	})
}

// rises goes from first towards last, by a factor e every pace episodes.
func rises(first, last, pace float64) func(int) float64 {
	return func(episode int) float64 { return last - (last-first)*math.Exp(-float64(episode)/pace) }
}

func always(share float64) func(int) float64 { return func(int) float64 { return share } }

// paper adds every experiment as the paper tells it.
func (l *lab) paper() {
	l.mainComparison(rises(0.6, 0.99, 1))
	for _, n := range []int{100, 500, 1000, 5000, 50_000} {
		for source, half := range map[string]float64{"ucb": 60, "thompson": 90, "random": 600, "rnd": 300} {
			l.returns(experimentData, "inferred", fmt.Sprintf("data=%s;n=%d", source, n), 1, always(float64(n)/(float64(n)+half)))
		}
	}
	l.returns(experimentEpisodes, ucb, "beta=0.1", 50, rises(0.6, 0.99, 1))
	l.returns(experimentEpisodes, thompson, "sigma=0.1", 50, rises(0.5, 0.98, 1))
	l.returns(experimentEpisodes, ucbEP, "beta=0.1", 50, rises(0.2, 0.98, 8))
	l.returns(experimentEpisodes, thompsonEP, "sigma=0.1", 50, rises(0.15, 0.98, 10))
	l.drift()
	for _, n := range []int{0, 10, 100, 1000, 10_000} {
		share := always(0.6 + 0.39*float64(n)/(float64(n)+80))
		l.returns(experimentWarm, ucb, fmt.Sprintf("beta=0.1;n=%d", n), 1, share)
		l.returns(experimentWarm, thompson, fmt.Sprintf("n=%d;sigma=0.1", n), 1, share)
	}
	l.kappa()
	l.returns(experimentGradient, ucb, "samples=128", 10, rises(0.6, 0.99, 1))
	l.rates(experimentGradient, ucb, "samples=128", 400)
	for _, n := range []int{16, 512} {
		l.returns(experimentGradient, ucb, fmt.Sprintf("samples=%d", n), 10, rises(0.55, 0.985, 1.2))
		l.rates(experimentGradient, ucb, fmt.Sprintf("samples=%d", n), 50_000/float64(n+20))
	}
	l.returns(experimentGradient, ucbSphere, "samples=512", 10, rises(0.4, 0.9, 3))
	l.rates(experimentGradient, ucbSphere, "samples=512", 110)
	for _, steps := range []int{1, 5, 20} {
		l.returns(experimentGradient, ucbGradient, fmt.Sprintf("steps=%d", steps), 10, rises(0.6, 0.995, 1))
		l.rates(experimentGradient, ucbGradient, fmt.Sprintf("steps=%d", steps), 400/float64(1+3*steps))
	}
	l.disturbances()
	l.returns(experimentSampler, ucb, "sampler=right", 10, rises(0.6, 0.99, 1))
	l.returns(experimentSampler, ucb, "sampler=wrong", 10, rises(0.4, 0.9, 3))
	for method, hz := range map[string]float64{oracle: 4000, random: 3800, ucb: 450, thompson: 2500, lola: 3000} {
		l.rates(experimentCompute, method, "", hz)
	}
}

// mainComparison adds the main comparison, ucb with the given curve.
func (l *lab) mainComparison(share func(int) float64) {
	l.returns(experimentMain, oracle, "", 10, always(1))
	l.returns(experimentMain, ucb, "beta=0.1", 10, share)
	l.returns(experimentMain, ucb, "beta=1", 10, rises(0.4, 0.9, 3))
	l.returns(experimentMain, thompson, "sigma=0.1", 10, rises(0.5, 0.98, 1))
	l.returns(experimentMain, thompson, "sigma=0.001", 10, rises(0.3, 0.9, 2))
	l.returns(experimentMain, lola, "horizon=100;lr=0.1", 10, rises(0.15, 0.5, 12))
	l.returns(experimentMain, random, "", 10, always(0.15))
}

func (l *lab) drift() {
	l.tasks["drift"] = []string{"slowdown", "speedup"}
	defer delete(l.tasks, "drift")
	for _, method := range []string{ucb, thompson} {
		for i, rho := range []string{"1", "0.9999", "0.999", "0.99"} {
			l.each([]string{"drift"}, func(_, task string, model, trial int) {
				row := l.row(experimentDrift, "walker", task, method, "rho="+rho, model, trial)
				lag := []float64{0.6, 0.25, 0.1, 0.3}[i]
				for step := 100; step <= 30_000; step += 100 {
					moved := min(1, max(0, float64(step-10_000)/10_000))
					l.add(row, eval.MeasureReward, float64(step), 0.9-lag*moved+0.03*l.rng.NormFloat64())
				}
			})
		}
	}
}

func (l *lab) kappa() {
	for _, method := range []string{ucb, thompson} {
		for i, kappa := range []string{"0", "0.001", "0.01", "0.1"} {
			asked := []float64{1, 0.3, 0.05, 0.01}[i]
			best := []float64{0.9, 0.9, 0.89, 0.6}[i]
			l.each(l.envs(), func(env, task string, model, trial int) {
				row := l.row(experimentKappa, env, task, method, "kappa="+kappa, model, trial)
				for step := 500; step <= 30_000; step += 500 {
					used := 400*(1-math.Exp(-float64(step)/400)) + asked*float64(step)
					if kappa == "0" {
						used = float64(step)
					}
					l.add(row, eval.MeasureReward, float64(step), best*(1-math.Exp(-float64(step)/3000))+0.02*l.rng.NormFloat64())
					l.add(row, eval.MeasureLabels, float64(step), math.Round(used))
				}
			})
		}
	}
}

func (l *lab) disturbances() {
	for i, alpha := range []string{"0", "1", "10", "100", "1000"} {
		shares := []float64{0.95, 0.95, 0.93, 0.6, 0.2}
		l.returns(experimentFeatures, ucb, "alpha="+alpha, 10, always(shares[i]))
		l.returns(experimentFeatures, thompson, "alpha="+alpha, 10, always(0.94))
	}
	for i, alpha := range []string{"0", "0.1", "0.5", "1", "2"} {
		l.returns(experimentRewards, ucb, "alpha="+alpha, 10, always(0.95-0.04*float64(i)))
	}
	for i, noise := range []string{"0", "0.1", "1", "10"} {
		for _, beta := range []string{"0.1", "10"} {
			loss := map[string]float64{"0.1": 0.12, "10": 0.01}[beta]
			l.returns(experimentNoise, ucb, "beta="+beta+";noise="+noise, 10, always(0.96-loss*float64(i)))
		}
	}
	for i := range 5 {
		l.returns(experimentPeople, ucb, fmt.Sprintf("delay_s=%g;mistakes=0;silence=0", []float64{0, 0.2, 1, 2, 4}[i]), 5, always(0.9-0.04*float64(i)))
		if i == 0 {
			continue
		}
		l.returns(experimentPeople, ucb, fmt.Sprintf("delay_s=0;mistakes=%g;silence=0", []float64{0, 0.05, 0.1, 0.2, 0.4}[i]), 5, always(0.9-0.08*float64(i)))
		l.returns(experimentPeople, ucb, fmt.Sprintf("delay_s=0;mistakes=0;silence=%g", []float64{0, 0.3, 0.6, 0.9, 0.99}[i]), 5, always(0.9-0.02*float64(i)))
	}
	for i, age := range []string{"0", "1", "3", "10"} {
		l.returns(experimentAsync, ucb, "age="+age, 10, always(0.96-0.01*float64(i)))
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newReport(t testing.TB, rows []eval.Row) *Report {
	t.Helper()
	r, err := New(rows, Options{Resamples: 400})
	must(t, err)
	return r
}
