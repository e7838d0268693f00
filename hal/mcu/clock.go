package mcu

import "time"

// clock maps the firmware's microseconds onto CLOCK_MONOTONIC: arrival minus
// device time is the offset of the clocks plus a delay that is never negative, so
// the least of many is the best. The clocks drift, so only the last one to two
// windows count.
type clock struct {
	started bool
	last    uint32 // the newest device time as it came
	micros  int64  // the newest device time, without its wraps
	begun   int64  // when the present window began, host
	present int64  // least offset of the present window, ns
	past    int64  // of the one before
	newest  int64  // the last mapped time: times do not go back
}

const window = int64(time.Second)

// at gives the host's time of device time t, of a frame that had arrived at
// arrival (ns, already less its time on the wire). A device time that goes back
// means that the firmware has started again.
func (c *clock) at(t uint32, arrival int64) int64 {
	step := int32(t - c.last)
	if !c.started || step < 0 {
		c.started, c.micros, c.begun = true, int64(t), arrival
		c.present = arrival - c.micros*1000
		c.past = c.present
	} else {
		c.micros += int64(step)
	}
	c.last = t
	offset := arrival - c.micros*1000
	if arrival-c.begun > window {
		c.begun, c.past, c.present = arrival, c.present, offset
	}
	c.present = min(c.present, offset)
	c.newest = max(c.newest, c.micros*1000+min(c.present, c.past))
	return c.newest
}
