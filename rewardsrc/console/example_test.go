package console_test

import (
	"fmt"
	"io"
	"strings"
	"time"

	"optibfm/rewardsrc"
	"optibfm/rewardsrc/console"
)

// Two labels come from lines.
func Example() {
	c := console.Open(console.Options{In: strings.NewReader("+\n0.25\n"), Out: io.Discard, Good: 1, Bad: -1})
	defer c.Halt()
	labels := make([]rewardsrc.Label, 8)
	for seen := 0; seen < 2; time.Sleep(time.Millisecond) {
		for _, l := range labels[:c.Poll(labels)] {
			fmt.Println(l.Value)
			seen++
		}
	}
	// Output:
	// 1
	// 0.25
}
