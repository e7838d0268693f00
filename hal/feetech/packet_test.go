package feetech

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"optibfm/hal"
	"optibfm/hal/servobus"
)

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// Packets of Feetech's "Communication Protocol User Manual", sections 1.3.1 to 1.3.8.
var published = []struct {
	name string
	id   byte
	code byte
	par  string
	wire string
}{
	{"1.3.1 ping", 1, Ping, "", "FF FF 01 02 01 FB"},
	{"1.3.1 ping, answer", 1, 0, "", "FF FF 01 02 00 FC"},
	{"1.3.2 read", 1, ReadData, "38 02", "FF FF 01 04 02 38 02 BE"},
	{"1.3.2 read, answer", 1, 0, "18 05", "FF FF 01 04 00 18 05 DD"},
	{"1.3.3 write to all", Broadcast, WriteData, "05 01", "FF FF FE 04 03 05 01 F4"},
	{"1.3.3 write", 1, WriteData, "2A 00 08 00 00 E8 03", "FF FF 01 09 03 2A 00 08 00 00 E8 03 D5"},
	{"1.3.4 reg write", 1, 0x04, "2A 00 08 00 00 E8 03", "FF FF 01 09 04 2A 00 08 00 00 E8 03 D4"},
	{"1.3.5 action", Broadcast, 0x05, "", "FF FF FE 02 05 FA"},
	{"1.3.6 sync write", Broadcast, SyncWrite,
		"2A 06 01 00 08 00 00 E8 03 02 00 08 00 00 E8 03 03 00 08 00 00 E8 03 04 00 08 00 00 E8 03",
		"FF FF FE 20 83 2A 06 01 00 08 00 00 E8 03 02 00 08 00 00 E8 03 03 00 08 00 00 E8 03 04 00 08 00 00 E8 03 58"},
	{"1.3.7 sync read", Broadcast, SyncRead, "38 08 01 02", "FF FF FE 06 82 38 08 01 02 36"},
	{"1.3.7 sync read, answer of 1", 1, 0, "00 08 00 00 00 00 79 1E", "FF FF 01 0A 00 00 08 00 00 00 00 79 1E 55"},
	{"1.3.7 sync read, answer of 2", 2, 0, "FF 07 00 00 00 00 77 23", "FF FF 02 0A 00 FF 07 00 00 00 00 77 23 53"},
	{"1.3.8 reset", 1, 0x06, "", "FF FF 01 02 06 F6"},
}

func TestAppendPacket_MatchesManual(t *testing.T) {
	for _, p := range published {
		t.Run(p.name, func(t *testing.T) {
			wire, params := unhex(p.wire), unhex(p.par)
			if got := AppendPacket(nil, Packet{p.id, p.code, params}); !bytes.Equal(got, wire) {
				t.Errorf("encoded %x, want %x", got, wire)
			}
			for _, noise := range []string{"", "00 12", "FF", "FF FF FF"} {
				before := unhex(noise)
				back, used, err := Decode(append(before, wire...))
				if err != nil || used != len(before)+len(wire) || back.ID != p.id || back.Code != p.code ||
					!bytes.Equal(back.Params, params) {
					t.Errorf("behind %q: decoded %+v, %d, %v", noise, back, used, err)
				}
			}
		})
	}
}

func TestProtocol_MatchesManual(t *testing.T) {
	p := newProtocol(4)
	if got := p.AppendSyncRead(nil, 0x38, 8, []byte{1, 2}); !bytes.Equal(got, unhex("FF FF FE 06 82 38 08 01 02 36")) {
		t.Errorf("%x", got)
	}
	one := unhex("00 08 00 00 E8 03")
	var data []byte
	for id := byte(1); id <= 4; id++ {
		data = append(append(data, id), one...)
	}
	if got := p.AppendSyncWrite(nil, 0x2A, 6, data); got[len(got)-1] != 0x58 || got[3] != 0x20 {
		t.Errorf("%x", got)
	}
}

func TestSigned_RoundTrips(t *testing.T) {
	for v := -maxMagnitude; v <= maxMagnitude; v++ {
		if back := signed(appendSigned(nil, v)); back != v {
			t.Fatalf("%d came back as %d", v, back)
		}
	}
	if b := appendSigned(nil, -100); !bytes.Equal(b, []byte{100, 0x80}) {
		t.Errorf("%x", b)
	}
}

func TestDecode_DetectsDamageAndFindsNextPacket(t *testing.T) {
	good := unhex("FF FF 01 04 00 18 05 DD")
	for bit := range 8 * len(good) {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		if p, _, err := Decode(bad); err == nil {
			t.Errorf("bit %d: decoded as %+v", bit, p)
		}
	}
	bad := bytes.Clone(good)
	bad[5]++
	stream := append(bad, good...)
	_, used, err := Decode(stream)
	if !errors.Is(err, hal.ErrChecksum) {
		t.Fatal(err)
	}
	if p, _, err := Decode(stream[used:]); err != nil || p.ID != 1 {
		t.Errorf("%+v, %v", p, err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, p := range published {
		f.Add(unhex(p.wire))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			p, used, err := Decode(b)
			if used < 0 || used > len(b) || (err != nil && !errors.Is(err, servobus.ErrIncomplete) && used == 0) {
				t.Fatalf("%x: used %d of %d, %v", b, used, len(b), err)
			}
			if errors.Is(err, servobus.ErrIncomplete) {
				return
			}
			if err == nil && !bytes.HasSuffix(b[:used], AppendPacket(nil, p)) {
				t.Fatalf("%x was decoded as %+v", b[:used], p)
			}
			b = b[used:]
		}
	})
}
