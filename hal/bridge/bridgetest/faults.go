package bridgetest

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
)

// Fault replaces the right answer of a server. For an act in free mode, which has no
// answer when it succeeds, the right answer is a forbidden state.
type Fault struct {
	Name   string
	Answer func(right []byte) []byte // the bytes that it sends
	Then   Then
	// Mild faults keep the framing valid: the connection stays open.
	Mild bool
	// Acts is the number of actions that a client may still send: it cannot
	// recognise the fault earlier.
	Acts int
}

// Then is the behaviour of a server after its answer.
type Then int

// The behaviours of a server after its answer.
const (
	GoOn            Then = iota // it answers correctly
	BeSilent                    // it answers nothing more, and does not close the connection
	BeSlow                      // it sends its answer a byte every 60 ms, and continues
	CloseConnection             // it closes the connection
)

// Faults lists the possible faults of a server at a request.
func Faults(at Kind, free bool) []Fault {
	list := slices.Concat(framing(), numbering(), ofError(at))
	switch {
	case at == Hello:
		list = append(list, ofWelcome()...)
	case at == Sense, at == Act && !free, at == Reset && !free:
		list = slices.Concat(list, brokenState(), notFinite())
	case at == Reset: // the client senses before it uses a sample
		list = append(list, brokenState()...)
	}
	if at == Act && free {
		list = append(list, Fault{Name: "an answer to an act in free mode", Answer: right})
	} else {
		list = append(list, Fault{Name: "no answer", Answer: nothing, Then: BeSilent})
	}
	if free {
		allowLate(list)
	}
	return slices.DeleteFunc(list, func(f Fault) bool { return at == Reset && f.Then == BeSlow }) // it may be slow
}

// MeasuredFaults lists the faults of a welcome of version 2 whose last action channel
// is measured by an observation with a name of one byte or more.
func MeasuredFaults() []Fault {
	const nameEnd, scale, offset = 17, 16, 8 // from the end
	last := func(from int, v float64) func([]byte) []byte {
		return payload(func(b []byte) []byte {
			binary.LittleEndian.PutUint64(b[len(b)-from:], math.Float64bits(v))
			return b
		})
	}
	return []Fault{
		{Name: "measured by an unknown observation", Answer: payload(func(b []byte) []byte {
			b[len(b)-nameEnd] = '?'
			return b
		})},
		{Name: "a scale that is NaN", Answer: last(scale, math.NaN())},
		{Name: "an infinite offset", Answer: last(offset, math.Inf(1))},
		{Name: "version 1 with a measurement", Answer: edit(headerSize+4, 1)},
		{Name: "without the offset", Answer: payload(func(b []byte) []byte { return b[:len(b)-offset] })},
	}
}

// Names reports whether an error names the bridge and the request at which the fault
// was committed, or one of those after it, whose answers show the fault.
func Names(err error, at Kind) bool {
	shows := map[Kind][]Kind{
		Hello: {Arm, Sense, Reset}, Arm: {Sense, Reset}, Sense: {Reset}, Reset: {Act, Sense}, Act: {Sense},
	}
	return strings.Contains(err.Error(), "bridge: ") && slices.ContainsFunc(append(shows[at], at), func(k Kind) bool {
		return strings.Contains(err.Error(), k.String()+": ")
	})
}

// allowLate allows one more action where an answer may still come in time, and
// where one comes before its request.
func allowLate(list []Fault) {
	for i := range list {
		if f := &list[i]; f.Then == BeSilent || f.Then == BeSlow || f.Name == nextNumber {
			f.Acts = 1
		}
	}
}

func right(b []byte) []byte { return b }
func nothing([]byte) []byte { return nil }

// edit is an answer with another byte at i.
func edit(i int, v byte) func([]byte) []byte {
	return func(b []byte) []byte {
		b = bytes.Clone(b)
		b[i] = v
		return b
	}
}

// payload is an answer with another payload, of the right length.
func payload(change func([]byte) []byte) func([]byte) []byte {
	return func(b []byte) []byte {
		return Frame(Kind(b[4]), b[5], seqOf(b), change(bytes.Clone(b[headerSize:])))
	}
}

func seqOf(b []byte) uint32 { return binary.LittleEndian.Uint32(b[8:]) }

// renumbered is an answer with a sequence number that is d too high.
func renumbered(d uint32) func([]byte) []byte {
	return func(b []byte) []byte { return Frame(Kind(b[4]), b[5], seqOf(b)+d, b[headerSize:]) }
}

// framing are the faults of any frame.
func framing() []Fault {
	first := func(share float64) func([]byte) []byte {
		return func(b []byte) []byte { return b[:int(share*float64(len(b)))] }
	}
	head := func(b []byte) []byte { return b[:5] }
	return []Fault{
		{Name: "noise", Answer: func([]byte) []byte { return bytes.Repeat([]byte{0xA5, 0x5A, 0xFF}, 40) }},
		{Name: "another protocol", Answer: func([]byte) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n") }},
		{Name: "the connection is closed", Answer: nothing, Then: CloseConnection},
		{Name: "closed within the header", Answer: head, Then: CloseConnection},
		{Name: "closed within the frame", Answer: first(0.95), Then: CloseConnection},
		{Name: "silent within the header", Answer: head, Then: BeSilent},
		{Name: "silent within the frame", Answer: first(0.95), Then: BeSilent},
		{Name: "a byte every 60 ms", Answer: right, Then: BeSlow},
		{Name: "a byte too long", Answer: payload(func(b []byte) []byte { return append(b, 0) })},
		{Name: "4 GiB announced", Answer: length(255, 255, 255, 255)},
		{Name: "1 MiB + 1 announced", Answer: length(1, 0, 16, 0)},
		{Name: "unknown kind", Answer: edit(4, 77)},
		{Name: "kind 0", Answer: edit(4, 0)},
		{Name: "the kind of a request", Answer: edit(4, byte(Sense))},
		{Name: "unknown flag", Answer: edit(5, 0x80)},
		{Name: "reserved bytes", Answer: edit(6, 1)},
	}
}

const nextNumber = "the next sequence number"

// numbering are answers out of turn.
func numbering() []Fault {
	ok := func(d uint32) func([]byte) []byte {
		return func(b []byte) []byte { return Frame(OK, 0, seqOf(b)+d, nil) }
	}
	both := func(first, second func([]byte) []byte) func([]byte) []byte {
		return func(b []byte) []byte { return append(bytes.Clone(first(b)), second(b)...) }
	}
	return []Fault{
		{Name: nextNumber, Answer: renumbered(1)},
		{Name: "the last sequence number", Answer: renumbered(math.MaxUint32)},
		{Name: "a sequence number far away", Answer: renumbered(1 << 31)},
		{Name: "the answer twice", Answer: both(right, right)},
		{Name: "an unrequested ok after it", Answer: both(right, ok(0))},
		{Name: "an unrequested ok with the next number", Answer: both(right, ok(1))},
		{Name: "an unrequested ok with the last number", Answer: both(ok(math.MaxUint32), right)},
		{Name: "a state with the next number", Answer: both(right, func(b []byte) []byte {
			return Frame(State, 0, seqOf(b)+1, make([]byte, 24))
		})},
	}
}

// ofWelcome are the faults of a welcome: see its layout in PROTOCOL.md.
func ofWelcome() []Fault {
	const name, nameLength = headerSize + 22, headerSize + 20
	return []Fault{
		{Name: "wrong magic", Answer: edit(headerSize, 'X')},
		{Name: "wrong version", Answer: edit(headerSize+4, 3)},
		{Name: "unknown mode", Answer: edit(headerSize+6, 3)},
		{Name: "the other mode", Answer: func(b []byte) []byte { return edit(headerSize+6, 3-b[headerSize+6])(b) }},
		{Name: "unknown capability", Answer: edit(headerSize+7, 0x80)},
		{Name: "no period", Answer: func(b []byte) []byte {
			return append(append(bytes.Clone(b[:headerSize+12]), make([]byte, 8)...), b[headerSize+20:]...)
		}},
		{Name: "a name that is not UTF-8", Answer: edit(name, 0xFF)},
		{Name: "a name with a control character", Answer: edit(name, 27)},
		{Name: "a name of 65,000 bytes", Answer: edit(nameLength+1, 0xFE)},
		{Name: "an infinite failsafe value", Answer: func(b []byte) []byte {
			return binary.LittleEndian.AppendUint64(bytes.Clone(b[:len(b)-8]), math.Float64bits(math.Inf(1)))
		}},
		{Name: "cut to half", Answer: payload(func(b []byte) []byte { return b[:len(b)/2] })},
		{Name: "empty", Answer: payload(nothing)},
	}
}

// word is a state with another 64-bit number in its payload.
func word(at int, v uint64) func([]byte) []byte {
	return payload(func(b []byte) []byte { binary.LittleEndian.PutUint64(b[at:], v); return b })
}

// length replaces the announced length of the payload.
func length(bytes ...byte) func([]byte) []byte {
	return func(b []byte) []byte { return append(slices.Clone(bytes), b[4:]...) }
}

func brokenState() []Fault {
	return []Fault{
		{
			Name:   "without the reward's 8 bytes",
			Answer: payload(func(b []byte) []byte { return slices.Delete(b, 16, 24) }),
		},
		{Name: "without the last observation", Answer: payload(func(b []byte) []byte { return b[:len(b)-4] })},
		{Name: "negative age", Answer: word(8, 1<<63)},
		{Name: "an age of more than an hour", Answer: word(8, 3600e9+1)},
	}
}

func notFinite() []Fault {
	observation := func(v float64) func([]byte) []byte {
		return payload(func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[24:], math.Float32bits(float32(v)))
			return b
		})
	}
	return []Fault{
		{Name: "NaN in the observation", Answer: observation(math.NaN()), Mild: true},
		{Name: "infinity in the observation", Answer: observation(math.Inf(-1)), Mild: true},
		{Name: "a reward that is NaN", Answer: word(16, math.Float64bits(math.NaN())), Mild: true},
	}
}

// ofError are error frames in place of the answer.
func ofError(at Kind) []Fault {
	with := func(payload ...byte) func([]byte) []byte {
		return func(b []byte) []byte { return Frame(Error, 0, seqOf(b), payload) }
	}
	other := Arm
	if at == Arm {
		other = Sense
	}
	return []Fault{
		{Name: "error: the protocol", Answer: with(1, byte(at), 'n', 'o')},
		{Name: "error: the robot", Answer: with(2, byte(at), 'n', 'o'), Mild: true},
		{Name: "error: unknown code", Answer: with(99, byte(at))},
		{Name: "error: unknown request", Answer: with(2, 99)},
		{Name: "error: another request", Answer: with(2, byte(other))},
		{Name: "error: empty", Answer: with()},
		{Name: "error: not UTF-8", Answer: with(2, byte(at), 0xFF, 0xFE)},
		{Name: "error: a text of 1025 bytes", Answer: with(append([]byte{2, byte(at)}, make([]byte, 1025)...)...)},
	}
}
