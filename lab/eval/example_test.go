package eval_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"optibfm/lab/eval"
)

// Two methods on the built-in rover.
func Example() {
	protocol, err := eval.Parse("example", []byte(`
version: 1
experiment: example
run: {trials: 2, episodes: 1, episode_steps: 100}
environments: [{name: rover, tasks: [spin], models: [{bundle: "embedded:rover"}]}]
methods: [{name: thompson, sigma: [0.1]}, {name: random}]
`))
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "eval")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "results.csv")
	runner := eval.Runner{Protocol: protocol, Jobs: 2}
	hash, err := runner.Hash()
	if err != nil {
		log.Fatal(err)
	}
	results, err := eval.OpenResults(path, hash)
	if err != nil {
		log.Fatal(err)
	}
	if err := runner.Run(context.Background(), results); err != nil {
		log.Fatal(err)
	}
	if err := results.Close(); err != nil {
		log.Fatal(err)
	}
	rows, err := eval.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	best := map[string]float64{}
	for _, r := range rows {
		if r.Measure == eval.MeasureReturn {
			best[r.Method] = max(best[r.Method], r.Value)
		}
	}
	fmt.Println("thompson does better than random:", best["thompson"] > best["random"])
	// Output: thompson does better than random: true
}
