package bridge

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
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
	b := appendPreamble(nil, version1)
	b = append(b, byte(m.mode), 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(m.deadman.Milliseconds()))
	return appendText(b, m.task)
}

func decodeHello(b []byte) (m hello, err error) {
	r := reader{where: kindHello, rest: b}
	r.preamble(version1)
	m.mode = r.mode()
	r.zero()
	m.deadman = time.Duration(r.u32()) * time.Millisecond
	m.task = r.text()
	return m, r.end()
}

// version returns the version that m needs.
func (m welcome) version() uint16 {
	if slices.ContainsFunc(m.spec.Action, func(c hal.Channel) bool { return c.Measured.Obs != "" }) {
		return Version
	}
	return version1
}

func (m welcome) encode() []byte {
	version := m.version()
	b := appendPreamble(nil, version)
	b = append(b, byte(m.mode), byte(m.capabilities))
	b = binary.LittleEndian.AppendUint32(b, uint32(m.episodeSteps))
	b = binary.LittleEndian.AppendUint64(b, uint64(m.spec.Period))
	b = appendText(b, m.spec.Name)
	b = appendText(b, m.task)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(m.tasks)))
	for _, t := range m.tasks {
		b = appendText(b, t)
	}
	b = appendChannels(b, m.spec.Obs, false)
	return appendChannels(b, m.spec.Action, version > version1)
}

// decodeWelcome also validates the spec.
func decodeWelcome(b []byte) (m welcome, err error) {
	r := reader{where: kindWelcome, rest: b}
	version := r.preamble(Version)
	m.mode = r.mode()
	m.capabilities = capability(r.u8())
	m.episodeSteps = int(r.u32())
	m.spec.Period = time.Duration(r.u64())
	m.spec.Name = r.text()
	m.task = r.text()
	for range r.count("tasks", maxTasks) {
		m.tasks = append(m.tasks, r.text())
	}
	m.spec.Obs = r.channels("observations", false)
	m.spec.Action = r.channels("actions", version > version1)
	if err := r.end(); err != nil {
		return welcome{}, err
	}
	if unknown := m.capabilities &^ (canReset | canReward); unknown != 0 {
		return welcome{}, malformed("welcome", "update the older side", "unknown capabilities (%#x)", uint8(unknown))
	}
	if err := m.spec.Validate(); err != nil {
		return welcome{}, malformed("welcome", "correct the server's description of its robot", "%v", err)
	}
	if err := checkMeasured(m.spec); err != nil {
		return welcome{}, malformed("welcome", "name an observation channel, or send an empty name and zeros", "%v", err)
	}
	return m, nil
}

// checkMeasured returns an error for measurements that a welcome cannot have. Only an
// observation channel measures, and only an action channel is measured.
func checkMeasured(spec hal.Spec) error {
	observed := make(map[string]bool, len(spec.Obs))
	for i := range spec.Obs {
		c := &spec.Obs[i]
		if c.Measured != (hal.Measured{}) {
			return fmt.Errorf("observation %q is measured by another (%q)", c.Name, c.Measured.Obs)
		}
		observed[c.Name] = true
	}
	for i := range spec.Action {
		c := &spec.Action[i]
		switch m := c.Measured; {
		case m.Obs == "" && m != (hal.Measured{}):
			return fmt.Errorf("action %q is measured by a channel without a name (scale %v, offset %v)",
				c.Name, m.Scale, m.Offset)
		case m.Obs != "" && !observed[m.Obs]:
			return fmt.Errorf("action %q is measured by %q, which is not an observation channel", c.Name, m.Obs)
		}
	}
	return nil
}

func appendPreamble(b []byte, version uint16) []byte {
	return binary.LittleEndian.AppendUint16(append(b, magic...), version)
}

func appendText(b []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint16(b, uint16(len(s))), s...)
}

func appendFloat64s(b []byte, values ...float64) []byte {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

func appendChannels(b []byte, channels []hal.Channel, measured bool) []byte {
	b = binary.LittleEndian.AppendUint16(b, uint16(len(channels)))
	for i := range channels {
		c := &channels[i]
		b = appendText(appendText(b, c.Name), c.Unit)
		b = appendFloat64s(b, c.Min, c.Max, c.MaxRate, c.Failsafe)
		if measured {
			b = appendFloat64s(appendText(b, c.Measured.Obs), c.Measured.Scale, c.Measured.Offset)
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

// preamble returns the version, 1 to newest.
func (r *reader) preamble(newest uint16) uint16 {
	if b := r.take(len(magic), "the magic"); b != nil && string(b) != magic {
		r.fail("check that the address is that of a bridge", "wrong magic (%q, expected %q)", b, magic)
	}
	v := r.u16()
	if r.err == nil && (v < version1 || v > newest) {
		expected := "1"
		if newest > version1 {
			expected = fmt.Sprintf("1 to %d", newest)
		}
		r.fail("update the older side", "wrong version (%d, expected %s)", v, expected)
	}
	return v
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

func (r *reader) channels(what string, measured bool) []hal.Channel {
	n := r.count(what, hal.MaxChannels)
	channels := make([]hal.Channel, 0, n)
	for i := 0; i < n && r.err == nil; i++ {
		c := hal.Channel{
			Name: r.text(), Unit: r.text(),
			Min: r.f64(), Max: r.f64(), MaxRate: r.f64(), Failsafe: r.f64(),
		}
		if measured {
			c.Measured = hal.Measured{Obs: r.text(), Scale: r.f64(), Offset: r.f64()}
		}
		channels = append(channels, c)
	}
	return channels
}

func (r *reader) end() error {
	if r.err == nil && len(r.rest) > 0 {
		r.fail("check the peer's encoding and version", "%d bytes too many at its end", len(r.rest))
	}
	return r.err
}
