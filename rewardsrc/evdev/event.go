package evdev

import (
	"encoding/binary"
	"math"
	"strconv"
)

// event is struct input_event of the kernel's include/uapi/linux/input.h.
type event struct {
	at    int64 // CLOCK_MONOTONIC ns
	kind  uint16
	code  uint16
	value int32
}

// nativeWord is the size of each of the two words of time at the start of an
// event: the long of the process, which may differ from the kernel's.
const nativeWord = strconv.IntSize / 8

// eventSize is the length of an event with words of time of the given size, 4
// or 8 bytes.
func eventSize(word int) int { return 2*word + 8 }

// parseEvent reads an event of eventSize(word) bytes.
func parseEvent(b []byte, word int) event {
	var sec, usec uint64
	if word == 8 {
		sec, usec = binary.NativeEndian.Uint64(b), binary.NativeEndian.Uint64(b[8:])
	} else {
		sec, usec = uint64(binary.NativeEndian.Uint32(b)), uint64(binary.NativeEndian.Uint32(b[4:]))
	}
	b = b[2*word:]
	return event{
		at:    nanoseconds(sec, usec),
		kind:  binary.NativeEndian.Uint16(b),
		code:  binary.NativeEndian.Uint16(b[2:]),
		value: int32(binary.NativeEndian.Uint32(b[4:])),
	}
}

// nanoseconds returns -1 for an impossible time.
func nanoseconds(sec, usec uint64) int64 {
	if usec >= 1_000_000 || sec >= math.MaxInt64/1_000_000_000 {
		return -1
	}
	return int64(sec)*1_000_000_000 + int64(usec)*1000
}

// splitter cuts a byte stream into events. The kernel returns whole events, a
// pipe may not.
type splitter struct {
	word    int
	partial []byte
}

// feed calls f for each complete event, and stops at the first error.
func (s *splitter) feed(b []byte, f func(event) error) error {
	size := eventSize(s.word)
	for len(b) > 0 {
		if len(s.partial) == 0 && len(b) >= size {
			e := parseEvent(b[:size], s.word)
			b = b[size:]
			if err := f(e); err != nil {
				return err
			}
			continue
		}
		n := min(size-len(s.partial), len(b))
		s.partial = append(s.partial, b[:n]...)
		b = b[n:]
		if len(s.partial) < size {
			return nil
		}
		e := parseEvent(s.partial, s.word)
		s.partial = s.partial[:0]
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}
