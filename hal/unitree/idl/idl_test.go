package idl

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"

	"optibfm/internal/fatal"
)

func TestMessages_HaveTheLayoutOfC(t *testing.T) {
	for _, v := range []any{
		Go2MotorCommand{}, Go2Command{}, Go2IMU{}, Go2Motor{}, Go2Battery{}, Go2State{},
		G1MotorCommand{}, G1Command{}, G1IMU{}, G1Motor{}, G1State{},
	} {
		s := reflect.TypeOf(v)
		got := []uintptr{s.Size()}
		for i := range s.NumField() {
			got = append(got, s.Field(i).Offset)
		}
		if want := offsets[s.Name()]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: size and offsets %v, in C %v", s.Name(), got, want)
		}
	}
}

func TestDescriptors_HaveTheSizeOfTheMessages(t *testing.T) {
	for _, c := range []struct {
		d    Descriptor
		size uintptr
	}{
		{Go2CommandType, reflect.TypeFor[Go2Command]().Size()}, {Go2StateType, reflect.TypeFor[Go2State]().Size()},
		{G1CommandType, reflect.TypeFor[G1Command]().Size()}, {G1StateType, reflect.TypeFor[G1State]().Size()},
	} {
		if uintptr(c.d.Size) != c.size {
			t.Errorf("%s: %d bytes, in Go %d", c.d.Name, c.d.Size, c.size)
		}
	}
}

// bitwise is CRC-32/MPEG-2 by its definition, over words.
func bitwise(mem []byte) uint32 {
	crc := ^uint32(0)
	for i := 0; i < len(mem); i += 4 {
		crc ^= binary.LittleEndian.Uint32(mem[i:])
		for range 32 {
			top := crc >> 31
			crc <<= 1
			if top == 1 {
				crc ^= 0x04C11DB7
			}
		}
	}
	return crc
}

func checkBitwise[T Message](t *testing.T, rng *rand.Rand) {
	s := NewSummer[T]()
	m := new(T)
	mem := Bytes(m)
	for i := range mem {
		mem[i] = byte(rng.Uint32())
	}
	if got, want := s.Sum(m), bitwise(mem[:len(mem)-4]); got != want {
		t.Errorf("%T: %#x, want %#x", *m, got, want)
	}
	if n := testing.AllocsPerRun(10, func() { s.Sum(m) }); n != 0 {
		t.Errorf("%T: %v allocations", *m, n)
	}
}

func TestSummer_IsCRC32MPEG2OfTheWords(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		checkBitwise[Go2Command](t, rng)
		checkBitwise[Go2State](t, rng)
		checkBitwise[G1Command](t, rng)
		checkBitwise[G1State](t, rng)
	}
}

// vector is a message that scripts/unitree_vectors.py made with Unitree's SDK for Python.
type vector struct {
	Type   string `json:"type"`
	Memory string `json:"memory"` // the C struct with its checksum, as the SDK packs it
}

// check fills the padding with ones: Sum must not depend on it.
func check[T Message](t *testing.T, v vector) {
	want, err := hex.DecodeString(v.Memory)
	fatal.If(t, err)
	m, s := new(T), NewSummer[T]()
	mem := Bytes(m)
	if len(mem) != len(want) {
		t.Fatalf("%s: %d bytes, the SDK has %d", v.Type, len(mem), len(want))
	}
	copy(mem, want)
	for _, i := range s.padding {
		if mem[i] != 0 {
			t.Errorf("%s: the SDK has a member at byte %d, which is padding here", v.Type, i)
		}
		mem[i] = 0xff
	}
	sum := binary.LittleEndian.Uint32(want[len(want)-4:])
	if got := s.Sum(m); got != sum {
		t.Errorf("%s: checksum %#x, the SDK has %#x", v.Type, got, sum)
	}
	if s.Sum(m); string(mem) != string(want) {
		t.Errorf("%s: the memory differs from that of the SDK", v.Type)
	}
}

func TestSummer_AgreesWithUnitreesSDK(t *testing.T) {
	text, err := os.ReadFile("testdata/sdk.json")
	fatal.If(t, err)
	var vectors []vector
	fatal.If(t, json.Unmarshal(text, &vectors))
	if len(vectors) < 8 {
		t.Fatalf("%d vectors", len(vectors))
	}
	for _, v := range vectors {
		switch v.Type {
		case "unitree_go.msg.dds_.LowCmd_":
			check[Go2Command](t, v)
		case "unitree_go.msg.dds_.LowState_":
			check[Go2State](t, v)
		case "unitree_hg.msg.dds_.LowCmd_":
			check[G1Command](t, v)
		case "unitree_hg.msg.dds_.LowState_":
			check[G1State](t, v)
		default:
			t.Errorf("unknown type %s", v.Type)
		}
	}
}
