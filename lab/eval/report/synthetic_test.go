package report

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"optibfm/lab/eval"
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
		rng: rand.New(rand.NewPCG(1, 2)), trials: 5, models: 2, spread: 0.02,
		tasks: tasksOf(experimentMain),
	}
}

// tasksOf are an experiment's environments with their tasks.
func tasksOf(experiment string) map[string][]string {
	of := make(map[string][]string)
	for _, env := range environments(experiment) {
		of[env] = tasks(experiment, env)
	}
	return of
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
	return slices.Sorted(maps.Keys(l.tasks))
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
	for _, n := range []int{100, 300, 1000, 3000, 10_000} {
		for i, by := range []string{ucb, thompson, random, rnd} {
			setting := []string{"beta=0.1;", "sigma=0.1;", "", ""}[i]
			l.returns(experimentData, collected, fmt.Sprintf("%sby=%s;labels=%d", setting, by, n), 1, always(float64(n)/(float64(n)+[]float64{60, 90, 600, 300}[i])))
		}
		l.returns(experimentData, oracle, fmt.Sprintf("labels=%d", n), 1, always(float64(n)/(float64(n)+300)))
	}
	l.returns(experimentData, oracle, "labels=50000", 1, always(1))
	l.returns(experimentEpisodes, ucb, "beta=0.1", 45, rises(0.6, 0.99, 1))
	l.returns(experimentEpisodes, thompson, "sigma=0.1", 45, rises(0.5, 0.98, 1))
	l.returns(experimentEpisodes, ucbEP, "beta=0.1", 45, rises(0.2, 0.98, 8))
	l.returns(experimentEpisodes, thompsonEP, "sigma=0.1", 45, rises(0.15, 0.98, 10))
	l.drift()
	for _, n := range []int{0, 10, 100, 1000, 10_000} {
		share := always(0.6 + 0.39*float64(n)/(float64(n)+80))
		l.returns(experimentWarm, ucb, fmt.Sprintf("beta=0.1;warm_start=%d", n), 1, share)
		l.returns(experimentWarm, thompson, fmt.Sprintf("sigma=0.1;warm_start=%d", n), 1, share)
	}
	l.kappa()
	for _, n := range []int{8, 128, 512} {
		l.returns(experimentCompute, ucb, fmt.Sprintf("beta=0.1;candidates=%d", n), 5, rises(0.6, 0.99-0.3/float64(n), 1))
		l.rates(experimentCompute, ucb, fmt.Sprintf("beta=0.1;candidates=%d", n), 50_000/float64(n+20))
	}
	l.returns(experimentCompute, ucbSphere, "beta=0.1;candidates=512", 5, rises(0.4, 0.9, 3))
	l.rates(experimentCompute, ucbSphere, "beta=0.1;candidates=512", 110)
	for _, steps := range []int{2, 8, 16} {
		l.returns(experimentCompute, ucbGradient, fmt.Sprintf("beta=0.1;gradient_steps=%d", steps), 5, rises(0.6, 0.995, 1))
		l.rates(experimentCompute, ucbGradient, fmt.Sprintf("beta=0.1;gradient_steps=%d", steps), 900/float64(1+steps))
	}
	l.returns(experimentCompute, thompson, "sigma=0.1", 5, rises(0.5, 0.98, 1))
	l.rates(experimentCompute, thompson, "sigma=0.1", 2500)
	l.disturbances()
	for i, method := range []string{ucb, thompson} {
		tuned := []string{"beta=0.1", "sigma=0.1"}[i]
		l.returns(experimentSampler, method, tuned+";sampler=correct", 10, rises(0.6, 0.99, 1))
		l.returns(experimentSampler, method, tuned+";sampler=transposed", 10, rises(0.4, 0.9, 3))
	}
	l.navigation()
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
	l.each(l.envs(), func(env, task string, model, trial int) {
		row := l.row(experimentMain, env, task, ucb, "beta=0.1", model, trial)
		for episode := range 10 {
			l.add(row, eval.MeasurePromised, float64(episode), 1.1*oracleReturn(env, task, model))
		}
	})
	l.rates(experimentMain, oracle, "", 4000)
	l.rates(experimentMain, ucb, "beta=0.1", 450)
}

func (l *lab) navigation() {
	usual := l.tasks
	defer func() { l.tasks = usual }()
	l.tasks = tasksOf(experimentNavigation)
	l.returns(experimentNavigation, oracle, "", 10, always(1))
	l.returns(experimentNavigation, ucb, "beta=0.1", 10, rises(0.4, 0.95, 1))
	l.returns(experimentNavigation, thompson, "sigma=0.1", 10, rises(0.3, 0.92, 1))
	l.returns(experimentNavigation, random, "", 10, always(0.05))
}

func (l *lab) drift() {
	l.tasks["drift"] = tasks(experimentDrift, "walker")
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
				used, since := 0.0, 0
				for step := 1; step <= 30_000 && used < 10_000; step++ {
					before := used
					used = asked*float64(step) + (1-asked)*400*(1-math.Exp(-float64(step)/400))
					exhausted := slices.ContainsFunc(budgets, func(b float64) bool { return before < b && used >= b })
					if step%1000 == 0 || exhausted {
						l.add(row, eval.MeasureReward, float64(step), best*(1-math.Exp(-float64(step+since)/2/300))+0.02*l.rng.NormFloat64())
						l.add(row, eval.MeasureLabels, float64(step), math.Ceil(used))
						since = step
					}
				}
			})
		}
	}
}

func (l *lab) disturbances() {
	for i, alpha := range []string{"0", "1", "10", "100", "1000"} {
		l.returns(experimentFeatures, ucb, "beta=0.1;inaccuracy="+alpha, 10, always([]float64{0.95, 0.95, 0.93, 0.6, 0.2}[i]))
	}
	l.returns(experimentFeatures, thompson, "sigma=0.1", 10, always(0.94))
	for i, alpha := range []string{"0", "0.5", "1", "2", "4"} {
		l.returns(experimentRewards, oracle, "nonlinearity="+alpha, 10, always(1-0.05*float64(i)))
		l.returns(experimentRewards, ucb, "beta=0.1;nonlinearity="+alpha, 10, always((1-0.05*float64(i))*(0.96-0.03*float64(i))))
		l.returns(experimentRewards, thompson, "nonlinearity="+alpha+";sigma=0.1", 10, always((1-0.05*float64(i))*(0.95-0.03*float64(i))))
	}
	for i, noise := range []string{"0", "0.1", "1", "10"} {
		for _, beta := range []string{"0.1", "10"} {
			loss := map[string]float64{"0.1": 0.12, "10": 0.01}[beta]
			l.returns(experimentNoise, ucb, "beta="+beta+";noise="+noise, 10, always(0.96-loss*float64(i)))
		}
		l.returns(experimentNoise, thompson, "noise="+noise+";sigma=10", 10, always(0.9-0.01*float64(i)))
	}
	l.people()
	for i, age := range []string{"0", "1", "2", "10"} {
		l.returns(experimentAsync, ucb, "beta=0.1;plan_age="+age, 10, always(0.96-0.01*float64(i)))
		l.returns(experimentAsync, thompson, "plan_age="+age+";sigma=0.1", 10, always(0.94-0.01*float64(i)))
	}
}

func (l *lab) people() {
	one := map[string]float64{
		"delay_s=0.2;labels_per_minute=30": 0.93, "delay_s=1;labels_per_minute=30": 0.9, "delay_s=4;labels_per_minute=30": 0.7,
		"labels_per_minute=30;mistakes=0.1": 0.9, "labels_per_minute=30;mistakes=0.3": 0.7,
		"labels_per_minute=30;silence=0.25": 0.94, "labels_per_minute=30;silence=0.75": 0.9,
		"bias=0.2;labels_per_minute=30": 0.93, "bias=0.5;labels_per_minute=30": 0.91,
		"labels_per_minute=30;levels=2": 0.9, "labels_per_minute=30;levels=5": 0.93,
	}
	all := "bias=0.2;delay_s=1;labels_per_minute=30;levels=5;mistakes=0.1;silence=0.25"
	for i, method := range []string{ucb, thompson} {
		tuned := []string{"beta=0.1;", "sigma=0.1;"}[i]
		l.returns(experimentPeople, method, strings.TrimSuffix(tuned, ";"), 10, rises(0.6, 0.99, 1))
		for _, rate := range []int{10, 30, 120} {
			l.returns(experimentPeople, method, fmt.Sprintf("%slabels_per_minute=%d", tuned, rate), 10, rises(0.4, 0.98, 180/float64(rate)))
		}
		for _, params := range slices.Sorted(maps.Keys(one)) {
			l.returns(experimentPeople, method, tuned+params, 10, rises(0.4, one[params], 6))
		}
		l.returns(experimentPeople, method, tuned+all, 10, rises(0.3, 0.8, 10))
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
