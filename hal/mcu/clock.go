package mcu

import "time"

// clock maps the firmware's microseconds onto CLOCK_MONOTONIC. Arrival minus device time is the
// offset of the clocks plus a delay, which is never negative: the smallest difference is the best
// estimate. The clocks drift, so only the latest one to two windows count.
type clock struct {
	started bool
	last    uint32 // the newest device time as received
	micros  int64  // the newest device time, unwrapped
	begun   int64  // start of the present window, host time
	present int64  // smallest offset in the present window, ns
	past    int64  // smallest offset in the window before
	newest  int64  // the newest mapped time, which never decreases
}

const window = int64(time.Second)

// at returns the host time of device time t, for a frame that arrived at arrival (ns, less its time
// on the wire). A device time that decreases means that the firmware has restarted.
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
