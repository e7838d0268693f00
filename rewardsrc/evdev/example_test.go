package evdev_test

import (
	"fmt"
	"time"

	"optibfm/rewardsrc"
	"optibfm/rewardsrc/evdev"
)

// A camera's shutter remote: louder is good, quieter is bad.
func Example() {
	cfg := evdev.DefaultConfig()
	cfg.Device = evdev.Match{Bus: "bluetooth", Name: "AB Shutter3"}
	remote, err := evdev.Open(cfg, evdev.Options{Display: func(n rewardsrc.Notice) { fmt.Println(n.Text) }})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer remote.Halt()
	labels := make([]rewardsrc.Label, 8)
	for range time.Tick(20 * time.Millisecond) {
		for _, l := range labels[:remote.Poll(labels)] {
			fmt.Printf("%+g at %d ns\n", l.Value, l.At)
		}
	}
}
