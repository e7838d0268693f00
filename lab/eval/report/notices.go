package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"optibfm/lab/eval"
)

// notices are what weakens the numbers.
func (a *analysis) notices(o *Origin, repeated int) []string {
	var notices []string
	if repeated > 0 {
		notices = append(notices, fmt.Sprintf("%d rows are there more than once and were counted once.", repeated))
	}
	for _, e := range o.Experiments {
		if len(e.Protocols) > 1 {
			notices = append(notices, fmt.Sprintf("The experiment %s was run with %d different protocols: its numbers mix them.", e.Name, len(e.Protocols)))
		}
	}
	if len(o.Versions) > 1 {
		notices = append(notices, fmt.Sprintf("The rows come from %d versions of the program.", len(o.Versions)))
	}
	if len(a.oracles.all) == 0 {
		notices = append(notices, "There are no rows of the oracle: nothing can be said relative to it.")
	}
	if tasks := a.withoutOracle(); len(tasks) > 0 {
		notices = append(notices, "Left out of everything relative, as the oracle is missing or its returns are not positive: "+strings.Join(tasks, ", ")+".")
	}
	if tasks := a.untriedTasks(); len(tasks) > 0 {
		notices = append(notices, "Tasks of the protocols that were not run, where others of the environment were: "+strings.Join(tasks, "; ")+".")
	}
	if envs := a.withOneModel(); len(envs) > 0 {
		notices = append(notices, fmt.Sprintf("There is one trained model only of %s: what holds, holds of that network; the intervals know nothing of how another training would differ.", strings.Join(envs, ", ")))
	}
	if methods := a.withSomeModels(); len(methods) > 0 {
		notices = append(notices, "Not run with all models, so that their returns are not of the same networks as others': "+strings.Join(methods, "; ")+". Claims are judged by the models that their methods have in common.")
	}
	single, unfinished := a.few()
	if single > 0 {
		notices = append(notices, fmt.Sprintf("%s tried only once with a model on a task: no intervals.", settings(single)))
	}
	if unfinished > 0 {
		notices = append(notices, fmt.Sprintf("%s tried less often than others of the experiment: it may not be finished.", settings(unfinished)))
	}
	return notices
}

// few counts the settings that were tried once, and those that were tried less
// often than others of their experiment.
func (a *analysis) few() (single, unfinished int) {
	for _, g := range a.trials.split([]string{"experiment"}) {
		counts := trialsPerSetting(g.trials)
		most := slices.Max(counts)
		for _, n := range counts {
			if n == 1 {
				single++
			}
			if n < most {
				unfinished++
			}
		}
	}
	return single, unfinished
}

func settings(n int) string {
	if n == 1 {
		return "1 setting was"
	}
	return fmt.Sprintf("%s settings were", grouped(n))
}

// withOneModel are the environments that an experiment has only one model of.
func (a *analysis) withOneModel() []string {
	var envs []string
	for _, g := range a.trials.split([]string{"env", "experiment"}) {
		first := g.trials[0]
		another := func(t *trial) bool { return t.bfm != first.bfm }
		if !slices.ContainsFunc(g.trials, another) && !slices.Contains(envs, first.env) {
			envs = append(envs, first.env)
		}
	}
	return envs
}

// withSomeModels are the methods that were not run with all models of an environment,
// such as "lola with 1 of 3 of walker in main".
func (a *analysis) withSomeModels() []string {
	var methods []string
	for _, g := range a.trials.split([]string{"experiment", "env"}) {
		all := g.trials.models()
		for _, of := range g.trials.split([]string{"method"}) {
			if n := of.trials.models(); n < all {
				methods = append(methods, fmt.Sprintf("%s with %d of %d of %s in %s", of.key[0], n, all, g.key[1], g.key[0]))
			}
		}
	}
	return methods
}

// untriedTasks are those that experiments lack of their environments, such as
// "cheetah/run in async, kappa".
func (a *analysis) untriedTasks() []string {
	experiments := make(map[string][]string) // by what they lack
	for _, g := range a.trials.split([]string{"experiment", "env"}) {
		experiment, env := g.key[0], g.key[1]
		if !slices.ContainsFunc(claims, func(c claim) bool { return c.experiment == experiment }) {
			continue
		}
		tried := g.trials.values("task")
		var lacking []string
		for _, task := range tasks(experiment, env) {
			if !slices.Contains(tried, task) {
				lacking = append(lacking, env+"/"+task)
			}
		}
		if len(lacking) > 0 {
			key := strings.Join(lacking, ", ")
			experiments[key] = append(experiments[key], experiment)
		}
	}
	var all []string
	for _, lacking := range slices.Sorted(maps.Keys(experiments)) {
		all = append(all, lacking+" in "+strings.Join(experiments[lacking], ", "))
	}
	return all
}

// withoutOracle are the tasks, with the experiment, that have returns and
// nothing to divide them by, where other tasks of the experiment have.
func (a *analysis) withoutOracle() []string {
	var all []string
	for _, g := range a.trials.split([]string{"experiment"}) {
		lacking, relative := make(map[string]bool), false
		for _, t := range g.trials {
			switch {
			case len(t.curves[eval.MeasureReturn]) == 0:
			case len(a.oracles.values(t, eval.MeasureReturn).values) > 0:
				relative = true
			default:
				lacking[fmt.Sprintf("%s/%s in %s", t.env, t.task, t.experiment)] = true
			}
		}
		if relative {
			all = append(all, slices.Sorted(maps.Keys(lacking))...)
		}
	}
	return all
}

// trialsPerSetting counts the trials of each method with each parameters, by
// model and task.
func trialsPerSetting(ts trials) []int {
	type setting struct {
		bfm                       bfm
		env, task, method, params string
	}
	counts := make(map[setting]int)
	for _, t := range ts {
		counts[setting{t.bfm, t.env, t.task, t.method, t.params.String()}]++
	}
	return slices.Collect(maps.Values(counts))
}
