package mit

import (
	"math"
	"testing"

	"optibfm/hal/can"
)

// The ranges of the original firmware (B. Katz, CAN_com).
var original = Range{PMax: 12.5, VMax: 65, TMax: 18, KpMax: 500, KdMax: 5}

func TestPack_MatchesPublishedFrames(t *testing.T) {
	for _, test := range []struct {
		name string
		goal Goal
		want [8]byte
	}{
		// The command for no torque, as printed by DaMiao's and CubeMars' examples.
		{"zero", Goal{}, [8]byte{0x7F, 0xFF, 0x7F, 0xF0, 0x00, 0x00, 0x07, 0xFF}},
		{"least", Goal{Position: -12.5, Velocity: -65, Torque: -18}, [8]byte{}},
		{"most", Goal{12.5, 65, 18, 500, 5}, [8]byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}},
		{"beyond", Goal{99, 999, 99, 5000, 50}, [8]byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}},
		// Kp code 051, Kd code 199 (published with truncation as Kp 10, Kd 0.5).
		{"gains", Goal{Kp: 81.0 * 500 / 4095, Kd: 0.5}, [8]byte{0x7F, 0xFF, 0x7F, 0xF0, 0x51, 0x19, 0x97, 0xFF}},
	} {
		var data [8]byte
		original.Pack(&data, test.goal)
		if data != test.want {
			t.Errorf("%s: %x, want %x", test.name, data, test.want)
		}
	}
	var answer can.Frame
	original.PackAnswer(&answer.Data, Answer{})
	if answer.Data != [8]byte{0, 0x7F, 0xFF, 0x7F, 0xF7, 0xFF} {
		t.Errorf("answer %x", answer.Data)
	}
}

func TestCode_RoundTrips(t *testing.T) {
	for _, span := range []struct{ low, high float64 }{
		{-12.5, 12.5}, {-65, 65}, {-18, 18}, {0, 500}, {0, 5}, {-95.5, 95.5}, {-3.141593, 3.141593},
	} {
		for _, bits := range []int{narrow, wide} {
			for code := range uint32(1) << bits {
				x := decode(code, span.low, span.high, bits)
				if back := encode(x, span.low, span.high, bits); back != code {
					t.Fatalf("%v, %d bits: code %d is %v, which is code %d", span, bits, code, x, back)
				}
			}
		}
	}
}

func TestCode_IsNearest(t *testing.T) {
	step := 25.0 / (1<<wide - 1)
	for i := range 10_000 {
		x := -12.5 + 25*float64(i)/9999
		if off := math.Abs(decode(encode(x, -12.5, 12.5, wide), -12.5, 12.5, wide) - x); off > step/2*(1+1e-9) {
			t.Fatalf("%v is off by %v", x, off)
		}
	}
}

func TestPack_UsesSeparateBits(t *testing.T) {
	for bit := range 64 {
		var data, back [8]byte
		data[bit/8] = 1 << (bit % 8)
		original.Pack(&back, original.Unpack(data))
		if back != data {
			t.Errorf("bit %d: %x came back as %x", bit, data, back)
		}
	}
}

func FuzzUnpackAnswer(f *testing.F) {
	f.Add([]byte{1, 0x7F, 0xFF, 0x7F, 0xF7, 0xFF})
	f.Fuzz(func(t *testing.T, b []byte) {
		var frame can.Frame
		frame.Len = uint8(copy(frame.Data[:], b))
		a, err := original.UnpackAnswer(&frame)
		if (err != nil) != (len(b) < answerSize) {
			t.Fatalf("%d bytes: %v", len(b), err)
		}
		if err != nil {
			return
		}
		if math.Abs(a.Position) > 12.5 || math.Abs(a.Velocity) > 65 || math.Abs(a.Torque) > 18 {
			t.Fatalf("%+v is out of range", a)
		}
		back := frame.Data
		original.PackAnswer(&back, a)
		if back != frame.Data {
			t.Fatalf("%x came back as %x", frame.Data, back)
		}
	})
}
