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

// A person is asked about a bad moment. The robot becomes good before the person presses, so the
// label is good: the person judges what it remembers at the press.
func Example_person() {
	cfg := scripted.DefaultConfig()
	cfg.Mode, cfg.Levels = scripted.WhenAsked, 5
	cfg.ReactionMinS, cfg.ReactionMaxS, cfg.MemoryS = 0.3, 1.5, 0.1
	operator, err := scripted.New(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	labels := make([]rewardsrc.Label, 8)
	for tick := range uint64(20) {
		at, reward := int64(tick)*100e6, 0.0 // a period of 100 ms
		if tick > 3 {
			reward = 1
		}
		operator.Watch(tick, at, reward, true)
		if tick == 3 {
			operator.Ask(rewardsrc.Request{ID: 1, Tick: tick, At: at, State: rewardsrc.Open})
		}
		for _, l := range labels[:operator.Poll(labels)] {
			seconds := float64(l.At-300e6) / 1e9
			fmt.Printf("request %d about tick %d: %g after %.2f s\n", l.Request, l.Tick, l.Value, seconds)
		}
	}
	// Output: request 1 about tick 3: 1 after 0.58 s
}
