package report

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/posterior"
	"optibfm/rewardsrc"
)

// scriptAnswer is what the page's script computed; null is NaN.
type scriptAnswer struct {
	Asked      uint64    `json:"asked"`
	ByLabel    uint64    `json:"byLabel"`
	ByReward   uint64    `json:"byReward"`
	CantTell   uint64    `json:"cantTell"`
	Unanswered uint64    `json:"unanswered"`
	Unasked    uint64    `json:"unasked"`
	Labels     uint64    `json:"labels"`
	Exact      bool      `json:"exact"`
	Z          []float64 `json:"z"`
	Norm       *float64  `json:"norm"`
	Cosine     *float64  `json:"cosine"`
	MeanBonus  *float64  `json:"meanBonus"`
	LastNorm   *float64  `json:"lastNorm"`
}

type scriptParams struct {
	Kappa  *float64 `json:"kappa"`
	Lambda *float64 `json:"lambda"`
	Rho    *float64 `json:"rho"`
	Beta   *float64 `json:"beta"`
}

func (p scriptParams) params() flightlog.Params {
	return flightlog.Params{Kappa: p.Kappa, Lambda: p.Lambda, Rho: p.Rho, Beta: p.Beta}
}

const harness = `
const [data, params] = [2, 3].map((i) => require("fs").readFileSync(process.argv[i], "utf8"));
function lastNorm({ data, result }) { // null where the belief is not known at the end
  const k = data.moments.pos.length - 1;
  return data.moments.pos[k] === data.n - 1 ? result.norm[k] : null;
}
const answers = JSON.parse(params).map((p) => {
  const run = new Run(readData(data), p);
  for (const _ of run.work());
  const r = run.result;
  return { ...r, z: Array.from(r.finalZ), norm: r.finalNorm, lastNorm: lastNorm(run), kept: null, dgap: null, estimate: null };
});
console.log(JSON.stringify(answers));
`

// runScript computes what-ifs with the page's script, outside of a browser.
func runScript(t *testing.T, page []byte, params []scriptParams) []scriptAnswer {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed: the page's script is not run")
	}
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, content, 0o600))
		return path
	}
	cases, err := json.Marshal(params)
	must(t, err)
	script := scriptText("data.js", "belief.js", "whatif.js") + harness
	cmd := exec.Command(node, write("run.js", []byte(script)), write("data.json", embedded(t, page)), write("params.json", cases))
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, problems.String())
	}
	var answers []scriptAnswer
	must(t, json.Unmarshal(out, &answers))
	return answers
}

// embedded returns the data in a page.
func embedded(t testing.TB, page []byte) []byte {
	t.Helper()
	_, rest, ok := bytes.Cut(page, []byte(`id="data">`))
	if !ok {
		t.Fatal("the page has no data")
	}
	content, _, _ := bytes.Cut(rest, []byte("</script>"))
	return content
}

func value(x float64) *float64 { return &x }

func TestThePageAnswersWhatIfAsTheCommandDoes(t *testing.T) {
	every := []scriptParams{
		{Kappa: value(0.5)}, {Kappa: value(0.02)}, {Kappa: value(0)}, {Lambda: value(3)}, {Rho: value(0.99)}, {Rho: value(1)},
		{Beta: value(2)}, {Kappa: value(0.3), Lambda: value(0.2), Rho: value(0.995), Beta: value(0.5)}, {Lambda: value(10), Rho: value(0.98)},
	}
	if testing.Short() {
		every = every[7:]
	}
	logs := map[string]struct {
		change func(*simulation)
		params []scriptParams
	}{
		"an operator who answers late":            {func(*simulation) {}, every},
		"no forgetting":                           {func(s *simulation) { s.cfg.Rho = 1 }, every},
		"the exact restore":                       {func(s *simulation) { s.cfg.ExactRestore = true }, every},
		"a learner that doubts labels":            {func(s *simulation) { s.cfg.Robust = 0.5 }, every},
		"a noisy operator":                        {func(s *simulation) { s.cfg.Sigma = 0.5 }, every},
		"nobody answers and there are no rewards": {func(s *simulation) { s.silent, s.rewards = true, false }, every},
		"no rewards":                              {func(s *simulation) { s.rewards = false }, every},
		"a limit on requests":                     {func(s *simulation) { s.cfg.Gate.RequestsPerMinute = 20 }, every},
		"dropped ticks":                           {func(s *simulation) { s.drop = func(i uint64) bool { return i%37 == 5 || i > 250 && i < 262 } }, every},
		"a belief that starts with labels":        {func(s *simulation) { s.warm = true }, []scriptParams{{Kappa: value(0.5)}, {Beta: value(2)}}},
	}
	for name, c := range logs {
		t.Run(name, func(t *testing.T) {
			s := simulated()
			c.change(&s)
			log := s.write(t)
			page, made := pageOf(t, log)
			if made.WhatIf != Everything {
				t.Fatalf("the page computes %s", made.WhatIf)
			}
			for i, got := range runScript(t, page, c.params) {
				want, err := flightlog.WhatIf(open(t, log), c.params[i].params())
				must(t, err)
				compareAnswers(t, i, got, want)
			}
		})
	}
}

func compareAnswers(t *testing.T, i int, got scriptAnswer, want flightlog.Answer) {
	t.Helper()
	counts := [...][2]uint64{
		{got.Asked, want.Asked}, {got.ByLabel, want.ByLabel}, {got.ByReward, want.ByReward}, {got.CantTell, want.CantTell},
		{got.Unanswered, want.Unanswered}, {got.Unasked, want.Unasked}, {got.Labels, want.Labels},
	}
	for k, pair := range counts {
		if pair[0] != pair[1] {
			t.Errorf("case %d: count %d: the page has %d, the command %d", i, k, pair[0], pair[1])
		}
	}
	compareBeliefs(t, i, got, want)
	near(t, i, "mean bonus", got.MeanBonus, want.MeanBonus)
	if !got.Exact {
		t.Errorf("case %d: the page calls it approximate", i)
	}
}

func compareBeliefs(t *testing.T, i int, got scriptAnswer, want flightlog.Answer) {
	t.Helper()
	for k := range want.Z {
		near(t, i, "z", &got.Z[k], want.Z[k])
	}
	near(t, i, "norm", got.Norm, want.ZNorm)
	if got.LastNorm != nil {
		near(t, i, "norm at the last moment", got.LastNorm, want.ZNorm)
	}
	near(t, i, "cosine", got.Cosine, want.Cosine)
}

func near(t *testing.T, i int, what string, got *float64, want float64) {
	t.Helper()
	x := math.NaN()
	if got != nil {
		x = *got
	}
	if math.Abs(x-want) <= 1e-9*max(1, math.Abs(want)) || math.IsNaN(x) && math.IsNaN(want) {
		return
	}
	t.Errorf("case %d: %s: the page has %.17g, the command %.17g", i, what, x, want)
}

// longRun is too long for the features of all its ticks to go into a page.
func longRun(t *testing.T) string {
	if testing.Short() {
		t.Skip("writes a long log")
	}
	s := simulated()
	s.d, s.ticks, s.cfg.Gate.Kappa = 64, 17_000, 0.9
	return s.write(t)
}

func TestOfALongRunThePageAnswersLambdaAndRhoExactlyAndKappaForTheLabels(t *testing.T) {
	log := longRun(t)
	page, made := pageOf(t, log)
	if made.WhatIf != Labels {
		t.Fatalf("the page computes %s", made.WhatIf)
	}
	params := []scriptParams{{Rho: value(0.9995), Lambda: value(0.5)}, {Kappa: value(1.4)}}
	answers := runScript(t, page, params)
	for i, got := range answers[:1] {
		want, err := flightlog.WhatIf(open(t, log), params[i].params())
		must(t, err)
		if got.Labels != want.Labels || !got.Exact {
			t.Errorf("case %d: labels: the page has %d, the command %d; exact: %v", i, got.Labels, want.Labels, got.Exact)
		}
		compareBeliefs(t, i, got, want)
	}
	asked, z := filterLabels(t, log, *params[1].Kappa)
	if got := answers[1]; got.Asked != asked || got.Exact {
		t.Errorf("kappa: the page keeps %d labels, want %d; exact: %v", got.Asked, asked, got.Exact)
	}
	for k := range z {
		near(t, 1, "z", &answers[1].Z[k], z[k])
	}
}

// filterLabels applies, of the labels of a log that were asked for, only those
// at which the D-gap is at least kappa by then; volunteered ones all. It
// returns how many were asked for, and ẑ.
func filterLabels(t *testing.T, log string, kappa float64) (asked uint64, z []float64) {
	t.Helper()
	r := open(t, log)
	meta := r.Metadata()
	learner, err := controller.NewLearner(meta.Control, meta.Shape.Latent, meta.Robot.Period)
	must(t, err)
	answers, err := flightlog.CollectAnswers(r)
	must(t, err)
	phi := make(map[uint64][]float64)
	for record, err := range r.Records() {
		must(t, err)
		tick := record.Tick
		if tick == nil {
			continue
		}
		learner.Advance(tick.Elapsed)
		learner.Observe(tick.Index, tick.SenseAt, tick.Phi)
		phi[tick.Index] = append([]float64(nil), tick.Phi...)
		for _, a := range tick.Labels[:tick.NumLabels] {
			if a.Outcome != controller.Applied || a.Kind != rewardsrc.Value || answers.Undone(a.ID) {
				continue
			}
			if !answers.Volunteered(a) {
				if learner.Belief().NormSq(phi[a.From]) < posterior.DGapThreshold(kappa, learner.LabelWeight()) {
					continue
				}
				asked++
			}
			_, err := learner.Reapply(a)
			must(t, err)
		}
	}
	z = make([]float64, meta.Shape.Latent)
	learner.Belief().Mean(z)
	return asked, z
}
