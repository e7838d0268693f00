package bridge

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"optibfm/internal/errtest"

	"optibfm/hal"
	"optibfm/hal/haltest"
	"optibfm/internal/fatal"
)

// goldenWelcome is a welcome of version 2, written by hand after PROTOCOL.md.
const goldenWelcome = "OBFM" + "\x02\x00" + "\x02" + "\x00" + // version, free, no capabilities
	"\x00\x00\x00\x00" + "\x00\x2d\x31\x01\x00\x00\x00\x00" + // no nominal length, 20 ms
	"\x03\x00arm" + "\x00\x00" + "\x00\x00" + // no task, no tasks
	"\x01\x00" + // observations
	"\x01\x00q" + "\x03\x00deg" + zeros + zeros + zeros + zeros +
	"\x02\x00" + // actions
	"\x04\x00knee" + "\x03\x00rad" + minus1 + plus1 + plus2 + zeros +
	"\x01\x00q" + half + minus1 +
	"\x05\x00wheel" + "\x00\x00" + minus1 + plus1 + zeros + zeros +
	"\x00\x00" + zeros + zeros // nothing measures it

const (
	zeros  = "\x00\x00\x00\x00\x00\x00\x00\x00"
	half   = "\x00\x00\x00\x00\x00\x00\xe0\x3f"
	plus1  = "\x00\x00\x00\x00\x00\x00\xf0\x3f"
	plus2  = "\x00\x00\x00\x00\x00\x00\x00\x40"
	minus1 = "\x00\x00\x00\x00\x00\x00\xf0\xbf"
)

// arm is the robot of goldenWelcome.
func arm() hal.Spec {
	return hal.Spec{
		Name: "arm", Period: 20 * time.Millisecond,
		Obs: []hal.Channel{{Name: "q", Unit: "deg"}},
		Action: []hal.Channel{
			{
				Name: "knee", Unit: "rad", Min: -1, Max: 1, MaxRate: 2,
				Measured: hal.Measured{Obs: "q", Scale: 0.5, Offset: -1},
			},
			{Name: "wheel", Min: -1, Max: 1},
		},
	}
}

// aMeasuredWelcome is a welcome of version 2 with two observations and one action.
func aMeasuredWelcome(name string, scale, offset float64) []byte {
	b := aWelcome(lockstep)
	binary.LittleEndian.PutUint16(b[len(magic):], Version)
	return appendFloat64s(appendText(b, name), scale, offset)
}

func TestWelcome_Version2HasTheGoldenBytes(t *testing.T) {
	if got := (welcome{mode: free, spec: arm()}).encode(); string(got) != goldenWelcome {
		t.Errorf("encoded to\n%q, want\n%q", got, goldenWelcome)
	}
	m, err := decodeWelcome([]byte(goldenWelcome))
	fatal.If(t, err)
	want := arm()
	if m.mode != free || m.spec.Name != want.Name || m.spec.Period != want.Period ||
		!slices.Equal(m.spec.Obs, want.Obs) || !slices.Equal(m.spec.Action, want.Action) {
		t.Errorf("decoded to %+v", m)
	}
	var broken *ProtocolError
	for n := range len(goldenWelcome) {
		if _, err := decodeWelcome([]byte(goldenWelcome)[:n]); !errors.As(err, &broken) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}

func TestWelcome_HasVersion1WithoutMeasurements(t *testing.T) {
	spec := arm()
	spec.Action[0].Measured = hal.Measured{}
	b := welcome{mode: free, spec: spec}.encode()
	want := strings.Replace(goldenWelcome, "OBFM\x02", "OBFM\x01", 1)
	want = strings.Replace(want, "\x01\x00q"+half+minus1, "", 1)
	want = strings.TrimSuffix(want, "\x00\x00"+zeros+zeros)
	if string(b) != want {
		t.Errorf("encoded to\n%q, want\n%q", b, want)
	}
	fatal.If(t, errtest.Of(decodeWelcome(b)))
}

// A server of version 1 refuses every other hello.
func TestHello_HasVersion1(t *testing.T) {
	want := "OBFM\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00"
	if got := (hello{mode: lockstep}).encode(); string(got) != want {
		t.Errorf("encoded to %q, want %q", got, want)
	}
}

func TestWelcome_RefusesBadMeasurement(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		name          string
		scale, offset float64
		want          string // empty: accepted
	}{
		{"o1", 2, -1, ""},
		{"o0", 0, 0, ""}, // a scale of 1
		{"", 0, 0, ""},
		{"o2", 1, 0, `action "a0" is measured by "o2", which is not an observation channel; name an`},
		{"a0", 1, 0, `action "a0" is measured by "a0", which is not an observation channel`},
		{"", 1, 0, `action "a0" is measured by a channel without a name (scale 1, offset 0)`},
		{"", 0, 1, "without a name (scale 0, offset 1)"},
		{"o1", nan, 0, "measured: scale or offset is not finite (NaN, 0)"},
		{"o1", 1, -inf, "measured: scale or offset is not finite (1, -Inf)"},
		{"", nan, 0, "not finite"},
		{strings.Repeat("o", 129), 1, 0, "a name is too long (129 bytes"},
		{"o\xff", 1, 0, "not UTF-8"},
		{"o\n", 1, 0, "unprintable"},
	} {
		m, err := decodeWelcome(aMeasuredWelcome(c.name, c.scale, c.offset))
		if c.want != "" {
			var broken *ProtocolError
			if errtest.Contains(t, err, c.want); !errors.As(err, &broken) {
				t.Errorf("%q: not a ProtocolError: %v", c.name, err)
			}
			continue
		}
		fatal.If(t, err)
		if got := m.spec.Action[0].Measured; got != (hal.Measured{Obs: c.name, Scale: c.scale, Offset: c.offset}) {
			t.Errorf("%q: %+v", c.name, got)
		}
	}
}

func TestWelcome_MeasuresActionsOnly(t *testing.T) {
	spec := arm()
	spec.Obs[0].Measured = hal.Measured{Obs: "q"} // not encoded
	if got := (welcome{mode: free, spec: spec}).encode(); !bytes.Equal(got, []byte(goldenWelcome)) {
		t.Errorf("encoded to %q", got)
	}
}

func TestServe_CarriesMeasurements(t *testing.T) {
	spec := arm()
	address := "unix:" + filepath.Join(t.TempDir(), "robot.sock")
	l, err := Listen(address)
	fatal.If(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = Serve(ctx, l, haltest.New(spec), nil) }()
	r := dial(t, Config{Address: address, Mode: Free, TimeoutMs: 1000, DeadmanMs: 10000})
	if got := r.Spec(); !slices.Equal(got.Action, spec.Action) {
		t.Errorf("actions %+v", got.Action)
	}
	fatal.If(t, r.Arm())
}

// meter measures its actuators beside the observation.
type meter struct{ *haltest.Robot }

func (meter) Positions(dst []float32) { clear(dst) }

func TestServe_RefusesMeasurementsBesideTheObservation(t *testing.T) {
	const unknownChannel = `bridge: serve arm: action "knee" is measured by "encoder_3", ` +
		"which is not an observation channel; add the"
	for want, change := range map[string]func(*hal.Spec){
		unknownChannel: func(s *hal.Spec) { s.Action[0].Measured.Obs = "encoder_3" },
		`action "wheel" is measured by a channel without a name (scale 2`: func(s *hal.Spec) {
			s.Action[1].Measured.Scale = 2
		},
		`observation "q" is measured by another ("q")`: func(s *hal.Spec) { s.Obs[0].Measured.Obs = "q" },
	} {
		spec := arm()
		change(&spec)
		l, err := Listen("unix:" + filepath.Join(t.TempDir(), "robot.sock"))
		fatal.If(t, err)
		errtest.Contains(t, Serve(context.Background(), l, meter{haltest.New(spec)}, nil), want)
		errtest.NotNil(t, errtest.Of(l.Accept()), "the listener is open")
	}
}
