package keyboard_test

import (
	"fmt"
	"time"

	"optibfm/rewardsrc"
	"optibfm/rewardsrc/keyboard"
)

// Labels are printed until q or Ctrl-C.
func Example() {
	quit := make(chan struct{}, 1)
	k, err := keyboard.Open(keyboard.DefaultConfig(), keyboard.Options{
		OnKey: func(key keyboard.Key) {
			if key == 'q' || key == keyboard.CtrlC {
				select {
				case quit <- struct{}{}:
				default:
				}
			}
		},
	})
	if err != nil {
		fmt.Println(err) // standard input is no terminal
		return
	}
	defer k.Halt()
	labels := make([]rewardsrc.Label, 8)
	for {
		select {
		case <-quit:
			return
		case <-time.After(20 * time.Millisecond):
		}
		for _, l := range labels[:k.Poll(labels)] {
			fmt.Printf("%+g at %d ns\n", l.Value, l.At)
		}
	}
}
