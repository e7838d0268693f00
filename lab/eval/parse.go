package eval

import (
	"cmp"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"optibfm/configs"
	"optibfm/hal/rover"
	"optibfm/internal/keys"
	"optibfm/internal/safefile"
)

// maxTrials catches a misplaced zero.
const maxTrials = 1_000_000

// Load reads a protocol file.
func Load(path string) (Protocol, error) {
	f, _, err := safefile.Open(path)
	if err != nil {
		return Protocol{}, fmt.Errorf("eval: protocol: %w", err)
	}
	defer f.Close()
	const maxBytes = 1 << 20 // Parse refuses a text that was cut here
	text, err := io.ReadAll(io.LimitReader(f, maxBytes))
	if err != nil {
		return Protocol{}, fmt.Errorf("eval: protocol: %w", err)
	}
	return Parse(path, text)
}

// Parse reads a protocol; name is for messages. It reports all mistakes, each as a [*configs.Error]
// with its place.
func Parse(name string, text []byte) (Protocol, error) {
	p := Default()
	doc, err := configs.Decode(name, text, &p)
	if err != nil {
		return Protocol{}, err
	}
	c := checker{doc: doc}
	if !doc.Has("version") {
		c.add("version", "is missing; begin with 'version: %d'", Version)
	}
	c.protocol(p)
	if err := configs.Join(c.found); err != nil {
		return Protocol{}, err
	}
	return p, nil
}

type checker struct {
	doc   *configs.Document
	found []*configs.Error
}

func (c *checker) add(path, format string, args ...any) {
	c.found = append(c.found, c.doc.Mistake(path, path+" "+fmt.Sprintf(format, args...)))
}

// rules reports the values of a section that break the rules in its tags.
func (c *checker) rules(path string, section any) {
	keys.Each(reflect.ValueOf(section), func(key string, v reflect.Value, r keys.Rule) {
		if problem := r.Problem(v); problem != "" {
			c.add(path+"."+key, "%s", strings.TrimPrefix(problem, " "))
		}
	})
}

func (c *checker) protocol(p Protocol) {
	if p.Version != Version {
		c.add("version", "is %d; this program reads version %d", p.Version, Version)
	}
	if !isName(p.Experiment) {
		c.add("experiment", "is not a name (%q); use small letters, digits and _", p.Experiment)
	}
	c.run(p.Run)
	if len(p.Environments) == 0 {
		c.add("environments", "is empty; give at least one {name, tasks, models}")
	}
	for i, e := range p.Environments {
		c.environment(fmt.Sprintf("environments[%d]", i), e)
		if slices.ContainsFunc(p.Environments[:i], func(o Environment) bool { return o.Name == e.Name }) {
			c.add(fmt.Sprintf("environments[%d].name", i), "appears twice (%q); merge its tasks", e.Name)
		}
	}
	if len(p.Methods) == 0 {
		c.add("methods", "is empty; give at least one {name} of %s", strings.Join(Methods(), ", "))
	}
	for i, m := range p.Methods {
		c.method(fmt.Sprintf("methods[%d]", i), m)
	}
	c.settings("conditions", p.Conditions)
	c.rules("quick", p.Quick)
	for i := range p.Profiles {
		c.profile(fmt.Sprintf("profiles[%d]", i), p, i)
	}
	if len(c.found) == 0 {
		c.together(p)
	}
}

func isName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

func (c *checker) run(r Run) {
	c.rules("run", r)
	for i, n := range r.LabelBudgets {
		if i > 0 && n <= r.LabelBudgets[i-1] {
			c.add(fmt.Sprintf("run.label_budgets[%d]", i), "is not above the previous one (%d); sort them", n)
		}
	}
}

func (c *checker) profile(path string, p Protocol, i int) {
	own := p.Profiles[i]
	if !isName(own.Name) {
		c.add(path+".name", "is not a name (%q); use small letters, digits and _", own.Name)
	}
	if slices.Index(p.ProfileNames(), own.Name) != i+2 {
		c.add(path+".name", "is taken (%q); choose another name", own.Name)
	}
	c.rules(path, own)
	c.known(path+".environments", own.Environments, names(p.Environments, nameOfEnvironment))
	c.known(path+".methods", own.Methods, names(p.Methods, nameOfMethod))
	var tasks, models []string
	for _, e := range named(p.Environments, own.Environments, nameOfEnvironment) {
		tasks, models = append(tasks, e.Tasks...), append(models, names(e.Models, nameOfModel)...)
		if len(own.Tasks) > 0 && len(named(e.Tasks, own.Tasks, nameOfTask)) == 0 {
			c.add(path+".tasks", "leaves no task of %s; add one, or remove it from the environments", e.Name)
		}
		if len(own.Models) > 0 && len(named(e.Models, own.Models, nameOfModel)) == 0 {
			c.add(path+".models", "leaves no model of %s; add one, or remove it from the environments", e.Name)
		}
	}
	c.known(path+".tasks", own.Tasks, tasks)
	c.known(path+".models", own.Models, models)
}

// names returns the names that a profile may choose from.
func names[T any](list []T, nameOf func(T) string) (all []string) {
	for _, x := range list {
		all = append(all, nameOf(x))
	}
	return all
}

// known reports choices of a profile that the protocol does not have.
func (c *checker) known(path string, chosen, there []string) {
	for i, name := range chosen {
		if !slices.Contains(there, name) {
			c.add(fmt.Sprintf("%s[%d]", path, i), "is not in the protocol (%q); choose from %s",
				name, strings.Join(there, ", "))
		}
	}
}

func (c *checker) environment(path string, e Environment) {
	tasks, known := environmentTasks()[e.Name]
	if !known {
		c.add(path+".name", "is unknown (%q); use one of %s", e.Name, strings.Join(Environments(), ", "))
	}
	if len(e.Tasks) == 0 {
		c.add(path+".tasks", "is empty; use some of %s", strings.Join(tasks, ", "))
	}
	for i, t := range e.Tasks {
		at := fmt.Sprintf("%s.tasks[%d]", path, i)
		if known && e.reward(t) == nil && !slices.Contains(tasks, t) {
			c.add(at, "is unknown (%q); %s has %s, or define it in rewards", t, e.Name, strings.Join(tasks, ", "))
		}
		if slices.Contains(e.Tasks[:i], t) {
			c.add(at, "appears twice (%q); keep one", t)
		}
	}
	c.settings(path+".settings.ucb", e.Settings.UCB)
	c.settings(path+".settings.thompson", e.Settings.Thompson)
	c.settings(path+".settings.lola", e.Settings.LoLA)
	c.rewards(path, e, tasks)
	c.becomes(path, e)
	if len(e.Models) == 0 {
		c.add(path+".models", "is empty; give at least one {bundle}")
	}
	for i, m := range e.Models {
		at := fmt.Sprintf("%s.models[%d].bundle", path, i)
		if m.Bundle == "" || strings.ContainsFunc(m.Bundle, unicode.IsControl) {
			c.add(at, "is empty or not a path (%q); give the folder of a model bundle", m.Bundle)
		}
		if slices.ContainsFunc(e.Models[:i], func(o Model) bool { return o.Bundle == m.Bundle }) {
			c.add(at, "appears twice (%q); keep one", m.Bundle)
		}
	}
}

func (c *checker) method(path string, m Method) {
	known, ok := methods[m.Name]
	if !ok {
		c.add(path+".name", "is unknown (%q); use one of %s", m.Name, strings.Join(Methods(), ", "))
		return
	}
	for _, key := range m.keys() {
		if !slices.Contains(known.settings, key) {
			c.add(path+"."+key, "does not apply to %s; it has %s", m.Name, strings.Join(known.settings, ", "))
		}
	}
	c.rules(path, struct {
		Trials int `yaml:"trials" rule:"[0, 1e4]"`
	}{m.Trials})
	c.settings(path, m.Settings)
}

func (c *checker) settings(path string, s Settings) {
	for _, p := range s.problems() {
		c.add(path+"."+p.path, "%s", p.message)
	}
}

// together checks the combination of all settings.
func (c *checker) together(p Protocol) {
	runs := 0
	for _, e := range p.Environments {
		for _, m := range p.Methods {
			combinations := min(p.combined(e, m).count(maxTrials+1)*len(e.Tasks)*len(e.Models), maxTrials+1)
			runs += combinations * cmp.Or(m.Trials, p.Run.Trials)
		}
	}
	if runs > maxTrials {
		c.add("run.trials", "gives more than %d trials in total; use fewer values or trials", maxTrials)
		return
	}
	for i, e := range p.Environments {
		c.methodsOf(p, e)
		if e.Becomes != "" && p.Run.DiagnoseEvery > 0 {
			c.add(fmt.Sprintf("environments[%d].becomes", i), "excludes run.diagnose_every, which compares with one task")
		}
	}
}

// methodsOf checks the methods in an environment.
func (c *checker) methodsOf(p Protocol, e Environment) {
	seen := map[string]bool{}
	for i, m := range p.Methods {
		for _, cell := range p.combined(e, m).cells() {
			id := m.Name + " " + cell.params()
			if seen[id] {
				c.add(fmt.Sprintf("methods[%d]", i), "appears twice (%s); keep one", id)
				return
			}
			seen[id] = true
			if wrong := contradiction(m.Name, cell.withDefaults()); wrong != "" {
				c.add(fmt.Sprintf("methods[%d]", i), "%s", wrong)
				return
			}
		}
	}
}

// contradiction returns the reason why the settings of a cell exclude each other, or "".
func contradiction(name string, s Settings) string {
	if horizon, replay := s.Horizon[0], s.Replay[0]; name == LoLA && (replay%horizon != 0 || replay < 2*horizon) {
		return fmt.Sprintf("has horizon %d and replay %d; the replay must be a multiple of the horizon, at least two",
			horizon, replay)
	}
	return ""
}

// combined returns a method's settings in an environment, with the conditions that apply to it.
func (p Protocol) combined(e Environment, m Method) Settings {
	known := methods[m.Name].settings
	return m.Settings.over(e.Settings.of(m).only(known)).over(p.Conditions.only(known))
}

// of returns the settings of a method's family.
func (f FamilySettings) of(m Method) Settings {
	name := m.Name
	if name == Collected && len(m.By) > 0 {
		name = m.By[0]
	}
	switch family, _, _ := strings.Cut(name, "_"); family {
	case UCB:
		return f.UCB
	case Thompson:
		return f.Thompson
	case LoLA:
		return f.LoLA
	}
	return Settings{}
}

// Environments lists the names of the environments.
func Environments() []string {
	return []string{
		Rover, Walker, Cheetah, Quadruped, AntMaze, Go2, Go2Exact, Go2Estimated, Go2ExactEstimated,
	}
}

func environmentTasks() map[string][]string {
	tasks := map[string][]string{
		Rover:     roverTasks(),
		Walker:    {"stand", "walk", "run", "flip", "speedup", "slowdown", "speedup_upright", "slowdown_upright"},
		Cheetah:   {"walk", "run", "walk_backward", "run_backward"},
		Quadruped: {"stand", "walk", "run", "jump"},
		AntMaze:   {"task1", "task2", "task3", "task4", "task5"},
	}
	for env := range go2s {
		tasks[env] = []string{
			"stand", "walk_forward", "walk_backward", "walk_left", "walk_right", "turn_left", "turn_right",
			"crouch", "trot",
		}
	}
	return tasks
}

func roverTasks() (names []string) {
	for _, t := range rover.Tasks() {
		names = append(names, t.Name)
	}
	return names
}
