package bridge

import (
	"encoding/binary"
	"math"
	"time"
	"unicode/utf8"

	"optibfm/hal"
)

// hello is the first message of a client.
type hello struct {
	mode    mode
	deadman time.Duration // 0: none. In whole milliseconds
	task    string        // empty: the choice of the server
}

// welcome is the answer: the description of the robot.
type welcome struct {
	mode         mode
	capabilities capability
	episodeSteps int // 0: episodes have no nominal length
	task         string
	tasks        []string
	spec         hal.Spec
}

type mode uint8

const (
	lockstep mode = 1 // the robot's time advances by one period with each act
	free     mode = 2 // real time
)

type capability uint8

const (
	canReset  capability = 1 << 0
	canReward capability = 1 << 1
)

func (m hello) encode() []byte {
	b := appendPreamble(nil)
	b = append(b, byte(m.mode), 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(m.deadman.Milliseconds()))
	return appendText(b, m.task)
}

func decodeHello(b []byte) (m hello, err error) {
	r := reader{where: kindHello, rest: b}
	r.preamble()
	m.mode = r.mode()
	r.zero()
	m.deadman = time.Duration(r.u32()) * time.Millisecond
	m.task = r.text()
	return m, r.end()
}

func (m welcome) encode() []byte {
	b := appendPreamble(nil)
	b = append(b, byte(m.mode), byte(m.capabilities))
	b = binary.LittleEndian.AppendUint32(b, uint32(m.episodeSteps))
	b = binary.LittleEndian.AppendUint64(b, uint64(m.spec.Period))
	b = appendText(b, m.spec.Name)
	b = appendText(b, m.task)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(m.tasks)))
	for _, t := range m.tasks {
		b = appendText(b, t)
	}
	b = appendChannels(b, m.spec.Obs)
	return appendChannels(b, m.spec.Action)
}

// decodeWelcome also validates the spec.
func decodeWelcome(b []byte) (m welcome, err error) {
	r := reader{where: kindWelcome, rest: b}
	r.preamble()
	m.mode = r.mode()
	m.capabilities = capability(r.u8())
	m.episodeSteps = int(r.u32())
	m.spec.Period = time.Duration(r.u64())
	m.spec.Name = r.text()
	m.task = r.text()
	for range r.count("tasks", maxTasks) {
		m.tasks = append(m.tasks, r.text())
	}
	m.spec.Obs = r.channels("observations")
	m.spec.Action = r.channels("actions")
	if err := r.end(); err != nil {
		return welcome{}, err
	}
	if unknown := m.capabilities &^ (canReset | canReward); unknown != 0 {
		return welcome{}, malformed("welcome", "update the older side", "unknown capabilities (%#x)", uint8(unknown))
	}
	if err := m.spec.Validate(); err != nil {
		return welcome{}, malformed("welcome", "correct the server's description of its robot", "%v", err)
	}
	return m, nil
}

func appendPreamble(b []byte) []byte {
	return binary.LittleEndian.AppendUint16(append(b, magic...), Version)
}

func appendText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(s))), s...)
}

func appendChannels(b []byte, channels []hal.Channel) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(channels)))
	for i := range channels {
		c := &channels[i]
		b = appendText(appendText(b, c.Name), c.Unit)
		for _, v := range [...]float64{c.Min, c.Max, c.MaxRate, c.Failsafe} {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
	}
	return b
}

// reader decodes a payload. After the first error it returns zeros, so that the
// caller can check the error at the end.
type reader struct {
	where kind
	rest  []byte
	err   error
}

func (r *reader) fail(advice, problem string, args ...any) {
	if r.err == nil {
		r.err = malformed(r.where.String(), advice, problem, args...)
	}
	r.rest = nil
}

func (r *reader) take(n int, what string) []byte {
	if len(r.rest) < n {
		r.fail("check the peer's encoding", "it ends within %s (%d bytes left, %d needed)", what, len(r.rest), n)
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) u8() uint8 {
	if b := r.take(1, "a byte"); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if b := r.take(2, "a 16-bit number"); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if b := r.take(4, "a 32-bit number"); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.take(8, "a 64-bit number"); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) f64() float64 { return math.Float64frombits(r.u64()) }

func (r *reader) zero() {
	if v := r.u8(); v != 0 {
		r.fail("send a zero there", "the reserved byte is not zero (%d)", v)
	}
}

func (r *reader) text() string {
	n := int(r.u16())
	if n > hal.MaxName {
		r.fail("shorten it", "a name is too long (%d bytes, at most %d)", n, hal.MaxName)
		return ""
	}
	b := r.take(n, "a name")
	if !utf8.Valid(b) {
		r.fail("send UTF-8", "a name is not UTF-8 (%q)", b)
		return ""
	}
	return string(b)
}

func (r *reader) preamble() {
	if b := r.take(len(magic), "the magic"); b != nil && string(b) != magic {
		r.fail("check that the address is that of a bridge", "wrong magic (%q, expected %q)", b, magic)
	}
	if v := r.u16(); r.err == nil && v != Version {
		r.fail("update the older side", "wrong version (%d, expected %d)", v, Version)
	}
}

func (r *reader) mode() mode {
	m := mode(r.u8())
	if r.err == nil && m != lockstep && m != free {
		r.fail("send 1 (lockstep) or 2 (free)", "unknown mode (%d)", uint8(m))
	}
	return m
}

func (r *reader) count(what string, limit int) int {
	n := int(r.u16())
	if n > limit {
		r.fail("send fewer", "too many %s (%d, at most %d)", what, n, limit)
		return 0
	}
	return n
}

func (r *reader) channels(what string) []hal.Channel {
	n := r.count(what, hal.MaxChannels)
	channels := make([]hal.Channel, 0, n)
	for i := 0; i < n && r.err == nil; i++ {
		channels = append(channels, hal.Channel{
			Name: r.text(), Unit: r.text(),
			Min: r.f64(), Max: r.f64(), MaxRate: r.f64(), Failsafe: r.f64(),
		})
	}
	return channels
}

func (r *reader) end() error {
	if r.err == nil && len(r.rest) > 0 {
		r.fail("check the peer's encoding and version", "%d bytes too many at its end", len(r.rest))
	}
	return r.err
}
