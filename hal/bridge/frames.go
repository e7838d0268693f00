package bridge

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"optibfm/hal"
)

// sample is the state of the robot in a state frame.
type sample struct {
	at        int64 // ns, the robot's clock
	age       int64 // ns since the sample was taken, when it was sent
	reward    float64
	hasReward bool
	obs       []float32
}

const stateFixed = 8 + 8 + 8 // at, age, reward

func stateSize(obs int) int { return stateFixed + 4*obs }

func (s *sample) flags() uint8 {
	if s.hasReward {
		return flagReward
	}
	return 0
}

func (s *sample) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(s.at))
	b = binary.LittleEndian.AppendUint64(b, uint64(s.age))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(s.reward))
	return appendFloats(b, s.obs)
}

// decode fills s from a state's payload, which has the size of its obs.
func (s *sample) decode(h header, payload []byte) error {
	s.at = int64(binary.LittleEndian.Uint64(payload[0:]))
	s.age = int64(binary.LittleEndian.Uint64(payload[8:]))
	s.reward = math.Float64frombits(binary.LittleEndian.Uint64(payload[16:]))
	s.hasReward = h.flags&flagReward != 0
	decodeFloats(s.obs, payload[stateFixed:])
	if s.age < 0 || s.age > maxAge {
		return malformed("state", "correct the server's clock",
			"the sample's age is not between 0 and an hour (%d ns)", s.age)
	}
	return nil
}

// check returns an error for values that are not finite. The frame is valid, so
// this is not a protocol error, and the next sample may be finite.
func (s *sample) check(channels []hal.Channel) error {
	for i, v := range s.obs {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("bridge: sense: observation %q is not finite (%v); see the sensor or the simulator",
				channels[i].Name, v)
		}
	}
	if s.hasReward && (math.IsNaN(s.reward) || math.IsInf(s.reward, 0)) {
		return fmt.Errorf("bridge: sense: the reward is not finite (%v); see the simulator", s.reward)
	}
	return nil
}

func appendFloats(b []byte, values []float32) []byte {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// decodeFloats fills dst; b has 4 bytes for each.
func decodeFloats(dst []float32, b []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
}

// Code is the reason of a refusal.
type Code uint8

// The codes of a RemoteError.
const (
	CodeProtocol    Code = 1 // protocol error in the request; the server closes the connection
	CodeRobot       Code = 2 // the robot failed
	CodeHalted      Code = 3 // the robot is halted
	CodeUnsupported Code = 4 // unsupported request, task or mode
)

// RemoteError is a server's answer that a request failed. With CodeHalted it is
// hal.ErrHalted for errors.Is.
type RemoteError struct {
	Request string // such as "act"
	Code    Code
	Text    string // from the server
}

func (e *RemoteError) Error() string {
	return fmt.Sprintf("bridge: %s: server error: %s", e.Request, e.Text)
}

// Is reports CodeHalted as hal.ErrHalted.
func (e *RemoteError) Is(target error) bool {
	return target == hal.ErrHalted && e.Code == CodeHalted
}

func encodeError(request kind, code Code, text string) []byte {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	return append([]byte{byte(code), byte(request)}, text...)
}

// decodeError decodes an error's payload. It returns a RemoteError or a
// ProtocolError.
func decodeError(payload []byte) error {
	if len(payload) < 2 || len(payload) > 2+maxText {
		return malformed("error", "send a code, a request and a text",
			"the payload has a wrong length (%d bytes, expected 2 to %d)", len(payload), 2+maxText)
	}
	code, request, text := Code(payload[0]), kind(payload[1]), payload[2:]
	if code < CodeProtocol || code > CodeUnsupported || !request.known() {
		return malformed("error", "see the codes in PROTOCOL.md",
			"unknown code or request (%d, %d)", uint8(code), uint8(request))
	}
	if !utf8.Valid(text) {
		return malformed("error", "send UTF-8", "the text is not UTF-8 (%q)", text)
	}
	return &RemoteError{Request: request.String(), Code: code, Text: strings.Map(printable, string(text))}
}

// wrongRequest is the error of an error frame that names another request.
func wrongRequest(e *RemoteError, expected kind) error {
	return malformed("error", "name the kind of the request", "wrong request (%s, expected %v)", e.Request, expected)
}

// printable replaces control characters in a peer's text.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}
