package configs_test

import (
	"fmt"

	"optibfm/configs"
)

func ExampleLoad() {
	cfg, err := configs.Load("rover", "controller.strategy=thompson", "run.episodes=5")
	fmt.Println(cfg.Controller.Strategy, cfg.Run.Episodes, err)
	// Output: thompson 5 <nil>
}

// An error shows the line of the mistake.
func ExampleParse() {
	_, err := configs.Parse("my.yaml", []byte("version: 1\ncontroller:\n  stratgy: ucb\n"))
	fmt.Println(err)
	// Output:
	// my.yaml:3:3: unknown key controller.stratgy; did you mean strategy?
	//     3 |   stratgy: ucb
	//       |   ^^^^^^^
}
