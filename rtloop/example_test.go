package rtloop_test

import (
	"context"
	"fmt"

	"optibfm/rtloop"
)

func Example() {
	cfg := rtloop.DefaultConfig()
	cfg.PeriodMS = 5
	cfg.Priority, cfg.LockMemory = 0, false // what any user may have
	cfg.MaxMissed = rtloop.NoLimit
	cfg.WatchdogMS = 1000

	loop, granted, err := rtloop.Prepare(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("refused:", len(granted.Missing()))
	loop.Halt = func(error) { fmt.Println("actuators to their failsafe output") }
	loop.OnStuck = func(s rtloop.Stall) { fmt.Println("no tick for", s) }

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	report, err := loop.Run(ctx, func(beat rtloop.Beat) error {
		if beat.Index >= 9 {
			cancel()
		}
		return nil
	})
	fmt.Println("every period accounted for:", report.Identity(), err)

	// Output:
	// refused: 0
	// actuators to their failsafe output
	// every period accounted for: true <nil>
}
