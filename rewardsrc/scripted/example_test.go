package scripted_test

import (
	"fmt"

	"optibfm/rewardsrc"
	"optibfm/rewardsrc/scripted"
)

// An operator who answers requests, half a second late.
func Example() {
	cfg := scripted.DefaultConfig()
	cfg.Mode = scripted.WhenAsked
	cfg.DelayS = 0.5
	operator, err := scripted.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	labels := make([]rewardsrc.Label, 8)
	for tick := range uint64(20) {
		at := int64(tick) * 100e6 // a period of 100 ms
		operator.Watch(tick, at, float64(tick)/10, true)
		if tick == 3 {
			operator.Ask(rewardsrc.Request{ID: 1, Tick: tick, At: at, State: rewardsrc.Open})
		}
		for _, l := range labels[:operator.Poll(labels)] {
			fmt.Printf("tick %d: request %d about tick %d: %g\n", tick, l.Request, l.Tick, l.Value)
		}
	}
	// Output: tick 8: request 1 about tick 3: 0.3
}
