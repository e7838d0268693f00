// Labeldevice is a label source of your own: a type that implements rewardsrc.Source. This one is a
// button on the network, such as a microcontroller that sends the reward as text in a UDP packet.
//
//	go run ./examples/labeldevice -time 20s
//	echo -n +1 >/dev/udp/127.0.0.1/9870     # from another terminal, in bash
//
// With -demo the program presses the button itself. The loop in run stands for the control loop:
// a program with a robot calls optibfm.RegisterSource.
package main

import (
	"flag"
	"fmt"
	"log"
	"time"

	"optibfm/rewardsrc"
)

func main() {
	log.SetFlags(0)
	duration := flag.Duration("time", 20*time.Second, "length of the run")
	demo := flag.Bool("demo", false, "press the button every 0.4 s")
	flag.Parse()
	source, err := open("127.0.0.1:9870")
	if err != nil {
		log.Fatal(err)
	}
	run(source, *duration, *demo)
	if err := source.Halt(); err != nil {
		log.Fatal(err)
	}
}

// run asks once a second and polls at 20 Hz.
func run(source *button, duration time.Duration, demo bool) {
	labels := make([]rewardsrc.Label, 8)
	for tick := range uint64(duration / (50 * time.Millisecond)) {
		if tick%20 == 0 {
			source.Ask(rewardsrc.Request{ID: tick/20 + 1, Tick: tick, At: rewardsrc.Monotonic(), State: rewardsrc.Open})
		}
		if demo && tick%8 == 7 {
			if _, err := source.conn.WriteTo([]byte("+1"), source.conn.LocalAddr()); err != nil {
				log.Print(err)
			}
		}
		for _, l := range labels[:source.Poll(labels)] {
			about := "unasked: about the moments before the press"
			if l.Request != 0 {
				about = fmt.Sprintf("the answer to request %d: about tick %d", l.Request, l.Tick)
			}
			fmt.Printf("tick %3d: %+g, %s\n", tick, l.Value, about)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
