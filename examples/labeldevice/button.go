package main

import (
	"fmt"
	"log"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"optibfm/rewardsrc"
)

// button is a rewardsrc.Source. One goroutine calls its methods; they do not block.
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
	b.attribution.Reaction = int64(200 * time.Millisecond) // fastest human reaction
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

// Ask prints an open request, and records its start or end.
func (b *button) Ask(r rewardsrc.Request) {
	b.attribution.Ask(r, rewardsrc.Monotonic())
	if r.State == rewardsrc.Open {
		fmt.Printf("tick %3d: was this good? (request %d)\n", r.Tick, r.ID)
	}
}

// Poll returns the labels since the last call. Silence gives no label, never a reward of 0.
func (b *button) Poll(dst []rewardsrc.Label) (n int) {
	for n < len(dst) {
		select {
		case p := <-b.presses:
			dst[n], _ = b.attribution.Label(rewardsrc.Input{Kind: rewardsrc.Value, Value: p.reward, At: p.at})
			n++
		default:
			return n
		}
	}
	return n
}

// Halt releases the device.
func (b *button) Halt() error { return b.conn.Close() }
