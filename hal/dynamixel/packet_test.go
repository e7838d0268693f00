package dynamixel

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
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

// Packets of the e-manual, "DYNAMIXEL Protocol 2.0", section "Instruction Details"
// (emanual.robotis.com/docs/en/dxl/protocol2).
var published = []struct {
	name string
	id   byte
	inst byte
	par  string
	wire string
}{
	{"ping", 1, Ping, "", "FF FF FD 00 01 03 00 01 19 4E"},
	{"ping, answer", 1, Status, "00 06 04 26", "FF FF FD 00 01 07 00 55 00 06 04 26 65 5D"},
	{"ping all", Broadcast, Ping, "", "FF FF FD 00 FE 03 00 01 31 42"},
	{"ping all, answer of 2", 2, Status, "00 06 04 26", "FF FF FD 00 02 07 00 55 00 06 04 26 6F 6D"},
	{"read", 1, ReadData, "84 00 04 00", "FF FF FD 00 01 07 00 02 84 00 04 00 1D 15"},
	{"read, answer", 1, Status, "00 A6 00 00 00", "FF FF FD 00 01 08 00 55 00 A6 00 00 00 8C C0"},
	{"write", 1, WriteData, "74 00 00 02 00 00", "FF FF FD 00 01 09 00 03 74 00 00 02 00 00 CA 89"},
	{"write, answer", 1, Status, "00", "FF FF FD 00 01 04 00 55 00 A1 0C"},
	{"reg write", 1, 0x04, "68 00 C8 00 00 00", "FF FF FD 00 01 09 00 04 68 00 C8 00 00 00 AE 8E"},
	{"action", 1, 0x05, "", "FF FF FD 00 01 03 00 05 02 CE"},
	{"factory reset", 1, 0x06, "01", "FF FF FD 00 01 04 00 06 01 A1 E6"},
	{"reboot", 1, 0x08, "", "FF FF FD 00 01 03 00 08 2F 4E"},
	{"clear", 1, 0x10, "01 44 58 4C 22", "FF FF FD 00 01 08 00 10 01 44 58 4C 22 B1 DC"},
	{"sync read", Broadcast, SyncRead, "84 00 04 00 01 02", "FF FF FD 00 FE 09 00 82 84 00 04 00 01 02 CE FA"},
	{"sync read, answer of 2", 2, Status, "00 1F 08 00 00", "FF FF FD 00 02 08 00 55 00 1F 08 00 00 BA BE"},
	{"sync write", Broadcast, SyncWrite, "74 00 04 00 01 96 00 00 00 02 AA 00 00 00",
		"FF FF FD 00 FE 11 00 83 74 00 04 00 01 96 00 00 00 02 AA 00 00 00 82 87"},
	{"bulk read", Broadcast, 0x92, "01 90 00 02 00 02 92 00 01 00",
		"FF FF FD 00 FE 0D 00 92 01 90 00 02 00 02 92 00 01 00 1A 05"},
	{"bulk read, answer of 2", 2, Status, "00 24", "FF FF FD 00 02 05 00 55 00 24 8B A9"},
}

func TestAppendPacket_MatchesManual(t *testing.T) {
	for _, p := range published {
		t.Run(p.name, func(t *testing.T) {
			wire, params := unhex(p.wire), unhex(p.par)
			got := AppendPacket(nil, Packet{p.id, p.inst, params})
			if !bytes.Equal(got, wire) {
				t.Errorf("encoded %x, want %x", got, wire)
			}
			back, used, err := Decode(append([]byte("noise\xff\xff"), wire...))
			if err != nil || used != len(wire)+7 || back.ID != p.id || back.Instruction != p.inst ||
				!bytes.Equal(back.Params, params) {
				t.Errorf("decoded %+v, %d, %v", back, used, err)
			}
		})
	}
}

// crcByBits is CRC-16/UMTS by its definition.
func crcByBits(b []byte) uint16 {
	var crc uint32
	for _, v := range append(bytes.Clone(b), 0, 0) {
		for bit := 7; bit >= 0; bit-- {
			crc = crc<<1 | uint32(v>>bit)&1
			if crc&0x10000 != 0 {
				crc ^= 0x18005
			}
		}
	}
	return uint16(crc)
}

func TestCRC_MatchesDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		if CRC(b) != crcByBits(b) {
			t.Fatalf("%x: %x, want %x", b, CRC(b), crcByBits(b))
		}
	}
	if crc := CRC([]byte("123456789")); crc != 0xFEE8 { // check value of CRC-16/UMTS
		t.Errorf("%x", crc)
	}
}

func TestAppendPacket_StuffsHeaders(t *testing.T) {
	for _, test := range []struct{ params, stuffed string }{
		{"FF FF FD", "FF FF FD FD"},
		{"FF FF FD FD", "FF FF FD FD FD"},
		{"FF FF FF FD 00", "FF FF FF FD FD 00"},
		{"FF FF FD FF FF FD", "FF FF FD FD FF FF FD FD"},
		{"FF FD FF FD", "FF FD FF FD"},
	} {
		params := unhex(test.params)
		wire := AppendPacket(nil, Packet{1, Status, params})
		if got := wire[headerSize+1 : len(wire)-crcSize]; !bytes.Equal(got, unhex(test.stuffed)) {
			t.Errorf("%x was stuffed to %x", params, got)
		}
		if p, _, err := Decode(wire); err != nil || !bytes.Equal(p.Params, params) {
			t.Errorf("%x came back as %x, %v", params, p.Params, err)
		}
	}
}

func TestDecode_RoundTripsParameters(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		params := make([]byte, random.IntN(40))
		for i := range params {
			params[i] = []byte{0xFF, 0xFD, 0x00, 0x55}[random.IntN(4)] // rich in headers
		}
		wire := AppendPacket(nil, Packet{7, Status, params})
		if bytes.Count(wire, header[:3]) != 1+bytes.Count(wire, []byte{0xFF, 0xFF, 0xFD, 0xFD}) {
			t.Fatalf("a header inside %x", wire)
		}
		if p, used, err := Decode(wire); err != nil || used != len(wire) || !bytes.Equal(p.Params, params) {
			t.Fatalf("%x came back as %x, %v", params, p.Params, err)
		}
	}
}

func TestDecode_DetectsAnyFlippedBit(t *testing.T) {
	good := unhex("FF FF FD 00 01 08 00 55 00 A6 00 00 00 8C C0")
	for bit := range 8 * len(good) {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		if p, _, err := Decode(bad); err == nil {
			t.Errorf("bit %d: decoded as %+v", bit, p)
		}
	}
}

func TestDecode_FindsPacketBehindDamagedOne(t *testing.T) {
	good := unhex("FF FF FD 00 01 04 00 55 00 A1 0C")
	bad := bytes.Clone(good)
	bad[9] ^= 1
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
	f.Add([]byte{0xFF, 0xFF, 0xFD, 0x00, 1, 0xFF, 0xFF})
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			whole := bytes.Clone(b)
			p, used, err := Decode(b)
			if used < 0 || used > len(b) || (err != nil && !errors.Is(err, servobus.ErrIncomplete) && used == 0) {
				t.Fatalf("%x: used %d of %d, %v", whole, used, len(b), err)
			}
			if err == nil && len(p.Params)+headerSize+1+crcSize > used {
				t.Fatalf("%x: %d parameters of %d bytes", whole, len(p.Params), used)
			}
			if errors.Is(err, servobus.ErrIncomplete) {
				return
			}
			b = b[used:]
		}
	})
}
