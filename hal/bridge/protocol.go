package bridge

import (
	"encoding/binary"
	"fmt"
)

// Version is the newest version of the protocol. Only a welcome with a measured
// action channel has it. All other welcomes, and every hello, have version 1, which
// older peers accept.
const Version = 2

const version1 = 1

const (
	magic      = "OBFM"
	headerSize = 12
	maxHello   = 4 << 10 // bytes of a hello's payload
	maxWelcome = 1 << 20 // bytes of a welcome's payload
	maxText    = 1 << 10 // bytes of an error's text
	maxTasks   = 256
	maxAge     = int64(3600e9) // ns: an older sample is a broken clock
)

// kind is the kind of a frame. See PROTOCOL.md.
type kind uint8

const (
	kindHello kind = iota + 1
	kindWelcome
	kindSense
	kindAct
	kindReset
	kindArm
	kindHalt
	kindBye
	kindState
	kindOK
	kindError
)

var kindNames = [...]string{
	kindHello: "hello", kindWelcome: "welcome", kindSense: "sense", kindAct: "act", kindReset: "reset", kindArm: "arm",
	kindHalt: "halt", kindBye: "bye", kindState: "state", kindOK: "ok", kindError: "error",
}

func (k kind) String() string {
	if k.known() {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

func (k kind) known() bool { return k >= kindHello && k <= kindError }

// flagReward in the header of a state means that it has a reward.
const flagReward = 1

// flagsOf returns the valid flags of a kind of frame.
func flagsOf(k kind) uint8 {
	if k == kindState {
		return flagReward
	}
	return 0
}

// header precedes every payload.
type header struct {
	length uint32 // of the payload, bytes
	kind   kind
	flags  uint8
	seq    uint32 // of the request; a reply repeats it
}

func (h header) put(b []byte) {
	binary.LittleEndian.PutUint32(b[0:], h.length)
	b[4] = uint8(h.kind)
	b[5] = h.flags
	b[6], b[7] = 0, 0
	binary.LittleEndian.PutUint32(b[8:], h.seq)
}

// decodeHeader decodes the header in the first headerSize bytes of b. A payload of
// more than limit bytes is an error.
func decodeHeader(b []byte, limit int) (header, error) {
	h := header{
		length: binary.LittleEndian.Uint32(b[0:]),
		kind:   kind(b[4]),
		flags:  b[5],
		seq:    binary.LittleEndian.Uint32(b[8:]),
	}
	switch {
	case !h.kind.known():
		return h, malformed("frame", "check that the peer is a bridge", "unknown kind (%d)", uint8(h.kind))
	case h.flags&^flagsOf(h.kind) != 0 || b[6] != 0 || b[7] != 0:
		return h, malformed(h.kind.String(), "send zeros there",
			"reserved bytes of the header are not zero (% x)", b[5:8])
	case h.length > uint32(limit):
		return h, malformed(h.kind.String(), "check the peer's frame lengths",
			"the payload is too long (%d bytes, at most %d here)", h.length, limit)
	}
	return h, nil
}

// ProtocolError is an invalid frame. The connection is lost.
type ProtocolError struct {
	Where   string // the frame
	Problem string // what is wrong, and the value found
	Advice  string // the fix
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("bridge: %s: %s; %s", e.Where, e.Problem, e.Advice)
}

// during adds the request to the error of its answer.
func during(request kind, err error) error {
	broken, ok := err.(*ProtocolError)
	if !ok {
		return fmt.Errorf("%v: %w", request, err)
	}
	named := *broken
	named.Where = request.String() + ": " + named.Where
	return &named
}

func malformed(where, advice, problem string, args ...any) error {
	return &ProtocolError{Where: where, Problem: fmt.Sprintf(problem, args...), Advice: advice}
}

// wrongLength is the error of a payload with a wrong size.
func wrongLength(k kind, got, want int) error {
	return malformed(k.String(), "check that both sides have the same channels and version",
		"the payload has a wrong length (%d bytes, expected %d)", got, want)
}
