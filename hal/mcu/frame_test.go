package mcu

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"testing"

	"optibfm/hal"
	"optibfm/internal/fatal"
)

// decodeAll decodes a stream that begins at the start of a frame.
func decodeAll(stream []byte) (frames []Frame, problems []error) {
	var d Decoder
	rest := append([]byte{0}, stream...)
	for {
		f, used, err := d.Next(rest)
		rest = rest[used:]
		switch {
		case errors.Is(err, ErrIncomplete):
			return frames, problems
		case err != nil:
			problems = append(problems, err)
		default:
			f.Payload = bytes.Clone(f.Payload)
			frames = append(frames, f)
		}
	}
}

func TestCRC_IsCCITTFalse(t *testing.T) {
	crc := uint16(crcStart)
	for _, b := range []byte("123456789") {
		crc = crcOf(crc, b)
	}
	if crc != 0x29B1 {
		t.Errorf("%x", crc)
	}
}

// cobs is an independent encoder, by blocks (Cheshire and Baker 1999, listing 1).
func cobs(plain []byte) []byte {
	var out []byte
	for block := range bytes.SplitSeq(plain, []byte{0}) {
		out = append(append(out, byte(len(block)+1)), block...)
	}
	return append(out, 0)
}

func TestAppendFrame_EncodesCOBS(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		f := Frame{Type: byte(random.IntN(3)), Seq: byte(random.IntN(3)), Payload: make([]byte, random.IntN(251))}
		for i := range f.Payload {
			f.Payload[i] = byte(random.Uint32N(256)) * byte(random.IntN(2)) // many zeros
		}
		plain := append([]byte{f.Type, f.Seq}, f.Payload...)
		crc := uint16(crcStart)
		for _, b := range plain {
			crc = crcOf(crc, b)
		}
		coded := AppendFrame([]byte("before"), f)
		want := append([]byte("before"), cobs(append(plain, byte(crc), byte(crc>>8)))...)
		if !bytes.Equal(coded, want) {
			t.Fatalf("%x, want %x", coded, want)
		}
		frames, problems := decodeAll(coded[len("before"):])
		if len(frames) != 1 || problems != nil {
			t.Fatalf("%+v came back as %+v, %v", f, frames, problems)
		}
		if b := frames[0]; b.Type != f.Type || b.Seq != f.Seq || !bytes.Equal(b.Payload, f.Payload) {
			t.Fatalf("%+v came back as %+v, %v", f, frames, problems)
		}
	}
}

func TestDecoder_LosesOneFrameToDamagedByte(t *testing.T) {
	good := []Frame{
		{Type: 1, Seq: 1, Payload: []byte{1, 0, 2}},
		{Type: 2, Seq: 2, Payload: []byte{3, 4, 0, 0}},
		{Type: 3, Seq: 3, Payload: []byte{5}},
	}
	var stream []byte
	var ends []int
	for _, f := range good {
		stream = AppendFrame(stream, f)
		ends = append(ends, len(stream))
	}
	for at := ends[0]; at < ends[1]-1; at++ {
		for flip := 1; flip < 256; flip++ {
			bad := bytes.Clone(stream)
			bad[at] ^= byte(flip)
			frames, _ := decodeAll(bad)
			if len(frames) != 2 || frames[0].Seq != 1 || frames[1].Seq != 3 {
				t.Fatalf("byte %d by %x: %+v", at, flip, frames)
			}
		}
	}
}

func TestDecoder_DiscardsBytesBeforeFirstZero(t *testing.T) {
	var d Decoder
	stream := AppendFrame([]byte("half a frame\x00"), Frame{Type: 9})
	f, used, err := d.Next(stream)
	if err != nil || used != len(stream) || f.Type != 9 {
		t.Errorf("%+v, %d, %v", f, used, err)
	}
}

func TestDecoder_ReportsFrameWithoutEnd(t *testing.T) {
	frames, problems := decodeAll(append(bytes.Repeat([]byte{7}, 10_000), 0))
	if frames != nil || len(problems) != 1 || !errors.Is(problems[0], hal.ErrProtocol) {
		t.Errorf("%v, %v", frames, problems)
	}
}

func TestAppendFrame_PanicsForLongPayload(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a frame that is too long was encoded")
		}
	}()
	AppendFrame(nil, Frame{Payload: make([]byte, 251)})
}

func FuzzDecoder(f *testing.F) {
	f.Add(AppendFrame([]byte{0}, Frame{Type: Sample, Seq: 3, Payload: make([]byte, 31)}))
	f.Add([]byte{0, 5, 1, 0, 255, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		var d Decoder
		for rest := b; ; {
			f, used, err := d.Next(rest)
			if used > len(rest) || (used == 0 && len(rest) > 0) {
				t.Fatalf("used %d of %d", used, len(rest))
			}
			rest = rest[used:]
			if errors.Is(err, ErrIncomplete) {
				return
			}
			if err != nil {
				continue
			}
			again := f
			again.Payload = bytes.Clone(f.Payload)
			back, problems := decodeAll(AppendFrame(nil, again))
			if len(problems) > 0 || len(back) != 1 || !bytes.Equal(back[0].Payload, again.Payload) {
				t.Fatalf("%+v does not come back: %+v, %v", again, back, problems)
			}
		}
	})
}

// FuzzMessages passes any payload of any type to the driver.
func FuzzMessages(f *testing.F) {
	f.Add(byte(Sample), make([]byte, sampleHead+8))
	f.Add(byte(State), []byte{1, 0, 200, 0})
	f.Add(byte(Channel), []byte("\x00left\x00rad"))
	f.Fuzz(func(t *testing.T, message byte, payload []byte) {
		d := &Device{values: make([]float64, 2), awaited: message}
		err := d.handle(Frame{Type: message, Payload: payload}, 1)
		if err == nil && message == State && len(payload) != stateSize {
			t.Error("a state of a wrong length was accepted")
		}
	})
}

func TestProtocol_ExamplesMatchDocument(t *testing.T) {
	document, err := os.ReadFile("PROTOCOL.md")
	fatal.If(t, err)
	for name, f := range map[string]Frame{
		"HELLO":    {Hello, 0, []byte{1}},
		"DESCRIBE": {Describe, 1, []byte{0}},
		"ARM":      {Arm, 2, []byte{200, 0}},
		"COMMAND":  {Command, 3, []byte{200, 0, 0, 0, 0x80, 0x3F, 0, 0, 0x20, 0xC0}},
		"HALT":     {Halt, 4, make([]byte, 8)},
		"STATE":    {State, 0, []byte{Armed, 0, 200, 0}},
	} {
		line := regexp.MustCompile(`(?m)^    ` + name + `,.*: (.*)$`).FindSubmatch(document)
		if line == nil {
			t.Errorf("%s has no example", name)
			continue
		}
		if want := fmt.Sprintf("% x", AppendFrame(nil, f)); string(line[1]) != want {
			t.Errorf("%s is %s, the document has %s", name, want, line[1])
		}
	}
}
