package report_test

import (
	"fmt"
	"log"

	"optibfm/lab/eval"
	"optibfm/lab/eval/report"
)

// What a handful of rows say, without a page: report.Report.Write makes one.
func Example() {
	var rows []eval.Row
	for i := range 12 {
		task, trial := []string{"walk", "run", "stand"}[i/4], i%4
		for method, returns := range map[string]float64{"oracle": 800, "ucb": 790, "thompson": 785, "random": 100, "lola": 300} {
			for episode := range 5 {
				rows = append(rows, eval.Row{
					Experiment: "main", Env: "walker", Task: task, Method: method, Trial: trial, Seed: uint64(trial),
					Measure: eval.MeasureReturn, X: float64(episode), Value: returns + float64(trial),
				})
			}
		}
	}
	r, err := report.New(rows, report.Options{Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	for i := range r.Claims[:3] {
		claim := &r.Claims[i]
		fmt.Printf("%s: %s\n  %s\n", claim.Name, claim.Verdict, claim.Outcome())
	}
	// Output:
	// near-oracle: holds in part
	//   walker only; walker: thompson, episodes 5 and later, of the oracle's return: 0.981 [0.981, 0.981], wanted at least 0.95; cheetah, quadruped: not run; walker: not run: flip
	// baselines: holds in part
	//   walker only; walker: ucb less random, all episodes: 0.861 [0.86, 0.862], wanted at least 0; cheetah, quadruped: not run; walker: not run: flip
	// ucb-thompson: holds in part
	//   walker only; walker: ucb less thompson, episodes 2 and later: 0.00624 [0.00623, 0.00625], wanted at least -0.02; cheetah, quadruped: not run; walker: not run: flip
}
