package gpio

import (
	"encoding/binary"
	"unsafe"

	"github.com/warthog618/go-gpiocdev/uapi"

	"optibfm/rewardsrc/panel"
)

const eventSize = int(unsafe.Sizeof(uapi.LineEvent{}))

// parseEvent reads struct gpio_v2_line_event from eventSize bytes.
func parseEvent(b []byte) uapi.LineEvent {
	return uapi.LineEvent{
		Timestamp: binary.NativeEndian.Uint64(b),
		ID:        uapi.LineEventID(binary.NativeEndian.Uint32(b[8:])),
		Offset:    binary.NativeEndian.Uint32(b[12:]),
		Seqno:     binary.NativeEndian.Uint32(b[16:]),
		LineSeqno: binary.NativeEndian.Uint32(b[20:]),
	}
}

// button is the state of one line.
type button struct {
	seqno uint32 // of the last edge; the kernel begins with 1
	level bool   // after it

	down  bool  // debounced
	first int64 // time of the first edge since it was steady, ns
	last  int64 // time of the last edge, ns
}

// lost returns the number of presses among the missing edges before the one with
// this number. Edges alternate.
func (b *button) lost(seqno uint32) uint64 {
	missing := uint64(seqno - b.seqno - 1) // wraps as the kernel's counter does
	if missing > 1<<31 {                   // it ran backwards: a new request
		missing = 0
	}
	if b.level { // the first missing one is a release
		return missing / 2
	}
	return (missing + 1) / 2
}

// edge records an edge; at and period, the debouncing time, are in ns.
func (b *button) edge(level bool, at int64, seqno uint32, period int64) {
	if at-b.last >= period {
		b.first = at
	}
	b.seqno, b.level, b.last = seqno, level, at
}

// settle accepts a level that was steady for the period. It reports whether the
// button changed, and when the change began. All times are in ns.
func (b *button) settle(now, period int64) (at int64, changed bool) {
	if b.level == b.down || now-b.last < period {
		return 0, false
	}
	b.down = b.level
	return b.first, true
}

func report(p *panel.Panel, r panel.Role, down bool, at int64) {
	if down {
		p.Down(r, at)
	} else {
		p.Up(r, at)
	}
}
