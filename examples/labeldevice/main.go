// Labeldevice is a label source of your own: a type that implements rewardsrc.Source. This one is a
// button on the network, such as a microcontroller that sends the reward as text in a UDP packet.
//
//	go run ./examples/labeldevice -time 20s
//	echo -n +1 >/dev/udp/127.0.0.1/9870     # from another terminal, in bash
//
// With -demo the program presses the button itself. The loop in run stands for the control loop: give the
// source to controller.NewAgent (examples/robot).
package main

import (
	"flag"
	"fmt"
	"log"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"optibfm/rewardsrc"
)

// button is a rewardsrc.Source. One goroutine calls its methods; none of them waits.
type button struct {
	conn        net.PacketConn
	presses     chan press
	attribution rewardsrc.Attribution // the request that a press answers, as for every device
}

type press struct {
	reward float64
	at     int64 // CLOCK_MONOTONIC, ns
}

var _ rewardsrc.Source = (*button)(nil)

func open(address string) (*button, error) {
	conn, err := net.ListenPacket("udp", address)
	if err != nil {
		return nil, fmt.Errorf("button: %w", err)
	}
	b := &button{conn: conn, presses: make(chan press, 64)}
	b.attribution.Reaction = int64(200 * time.Millisecond) // no person reacts faster
	go b.receive()
	return b, nil
}

// receive runs until Halt closes the socket. It takes the time of a press before anything else.
func (b *button) receive() {
	packet := make([]byte, 64)
	for {
		n, _, err := b.conn.ReadFrom(packet)
		at := rewardsrc.Monotonic()
		if err != nil {
			return
		}
		reward, err := strconv.ParseFloat(strings.TrimSpace(string(packet[:n])), 64)
		if err != nil || math.Abs(reward) > 1 || math.IsNaN(reward) {
			log.Printf("button: %q is not a reward from -1 to 1", packet[:n])
			continue
		}
		select {
		case b.presses <- press{reward, at}:
		default: // full: the operator presses faster than the loop polls
		}
	}
}

// Ask shows that a label is wanted, or that the request is closed.
func (b *button) Ask(r rewardsrc.Request) {
	b.attribution.Ask(r, rewardsrc.Monotonic())
	if r.State == rewardsrc.Open {
		fmt.Printf("tick %3d: was this good? (request %d)\n", r.Tick, r.ID)
	}
}

// Poll returns the labels since the last call. No press is no label: never return a reward of 0 instead.
func (b *button) Poll(dst []rewardsrc.Label) (n int) {
	for n < len(dst) {
		select {
		case p := <-b.presses:
			dst[n], _ = b.attribution.Label(rewardsrc.Value, p.reward, p.at)
			n++
		default:
			return n
		}
	}
	return n
}

// Halt releases the device.
func (b *button) Halt() error { return b.conn.Close() }

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
