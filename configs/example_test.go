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

// A mistake is shown where it is.
func ExampleParse() {
	_, err := configs.Parse("my.yaml", []byte("version: 1\ncontroller:\n  stratgy: ucb\n"))
	fmt.Println(err)
	// Output:
	// my.yaml:3:3: controller.stratgy is no key: did you mean strategy?
	//     3 |   stratgy: ucb
	//       |   ^^^^^^^
}
