package gpio_test

import (
	"fmt"
	"time"

	"optibfm/rewardsrc"
	"optibfm/rewardsrc/gpio"
)

// Two buttons to ground and a light, on the pins of the first chip.
func Example() {
	cfg := gpio.DefaultConfig()
	cfg.Good, cfg.Bad, cfg.LED = "17", "27", "5"
	buttons, err := gpio.Open(cfg, gpio.Options{Display: func(n rewardsrc.Notice) { fmt.Println(n.Text) }})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer buttons.Halt()
	labels := make([]rewardsrc.Label, 8)
	for range time.Tick(20 * time.Millisecond) {
		for _, l := range labels[:buttons.Poll(labels)] {
			fmt.Printf("%+g at %d ns\n", l.Value, l.At)
		}
	}
}
