package evdev

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// record writes struct input_event with words of time of 4 or 8 bytes.
func record(word int, sec, usec uint64, kind, code uint16, value int32) (b []byte) {
	if word == 8 {
		b = binary.NativeEndian.AppendUint64(b, sec)
		b = binary.NativeEndian.AppendUint64(b, usec)
	} else {
		b = binary.NativeEndian.AppendUint32(b, uint32(sec))
		b = binary.NativeEndian.AppendUint32(b, uint32(usec))
	}
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, code)
	return binary.NativeEndian.AppendUint32(b, uint32(value))
}

func TestParseEvent_BothLayouts(t *testing.T) {
	for _, word := range []int{4, 8} {
		b := record(word, 3, 999_999, evAbs, 2, -7)
		if len(b) != eventSize(word) {
			t.Fatalf("%d bytes, want %d", len(b), eventSize(word))
		}
		want := event{at: 3_999_999_000, kind: evAbs, code: 2, value: -7}
		if got := parseEvent(b, word); got != want {
			t.Errorf("%d-byte words: %+v, want %+v", word, got, want)
		}
	}
}

func TestParseEvent_MarksImpossibleTime(t *testing.T) {
	for _, c := range [][2]uint64{{1 << 63, 0}, {1 << 40, 0}, {1, 1_000_000}, {1, 1 << 63}} {
		if got := nanoseconds(c[0], c[1]); got != -1 {
			t.Errorf("%d s %d µs is %d ns, want -1", c[0], c[1], got)
		}
	}
}

func TestSplitter_ResumesAfterError(t *testing.T) {
	s := splitter{word: 8}
	failure := errors.New("no")
	b := slices.Concat(record(8, 1, 0, 1, 1, 1), record(8, 2, 0, 1, 1, 0))
	errtest.Is(t, s.feed(b, func(event) error { return failure }), failure)
}

// FuzzEvents: however reads cut the bytes, the events are the same, and no
// bytes are a panic.
func FuzzEvents(f *testing.F) {
	f.Add(record(8, 5, 6, 1, 304, 1), uint8(7), true)
	f.Add(slices.Concat(record(4, 5, 6, 1, 304, 1), record(4, 5, 6, 0, 3, 0)), uint8(16), false)
	f.Add([]byte{1, 2, 3}, uint8(1), true)
	f.Fuzz(func(t *testing.T, b []byte, cut uint8, wide bool) {
		word := 4
		if wide {
			word = 8
		}
		var whole, pieces []event
		collect := func(to *[]event) func(event) error {
			return func(e event) error { *to = append(*to, e); return nil }
		}
		one, many := splitter{word: word}, splitter{word: word}
		fatal.If(t, one.feed(b, collect(&whole)))
		for piece := range slices.Chunk(b, int(cut)+1) {
			fatal.If(t, many.feed(piece, collect(&pieces)))
		}
		if !slices.Equal(whole, pieces) || len(whole) != len(b)/eventSize(word) {
			t.Fatalf("%d bytes: %d events at once, %d in pieces", len(b), len(whole), len(pieces))
		}
		for _, e := range whole {
			if e.at < -1 {
				t.Fatalf("time %d", e.at)
			}
		}
	})
}

func FuzzBits(f *testing.F) {
	f.Add("10000000000 ffffffff000007ff ff87207ac14057ff febeffdfffefffff fffffffffffffffe", true)
	f.Add("zz 1", false)
	f.Fuzz(func(t *testing.T, text string, wide bool) {
		bits := 32
		if wide {
			bits = 64
		}
		b := parseBits(text, bits)
		for _, code := range b.Codes() {
			if !b.Has(code) || code >= keyCount {
				t.Fatalf("code %d", code)
			}
		}
	})
}

func TestParseBits_ReadsSysfs(t *testing.T) {
	// A power button: KEY_POWER is 116.
	b := parseBits("10000000000000 0", 64)
	if got := b.Codes(); !slices.Equal(got, []uint16{116}) {
		t.Errorf("codes %v", got)
	}
	b = parseBits("100000 0 0 0", 32)
	if got := b.Codes(); !slices.Equal(got, []uint16{116}) {
		t.Errorf("codes of 32-bit words %v", got)
	}
}

// sysfs makes a folder as /sys/class/input is.
func sysfs(t *testing.T, nodes map[string]map[string]string) Kernel {
	t.Helper()
	k := Kernel{Sys: t.TempDir(), Dev: t.TempDir()}
	for node, files := range nodes {
		for name, text := range files {
			path := filepath.Join(k.Sys, node, "device", name)
			fatal.If(t, os.MkdirAll(filepath.Dir(path), 0o755))
			fatal.If(t, os.WriteFile(path, []byte(text+"\n"), 0o644))
		}
	}
	return k
}

// volumeButtons is the set of KEY_VOLUMEDOWN and KEY_VOLUMEUP, 114 and 115, as
// the kernel prints it for this process.
func volumeButtons() string {
	if strconv.IntSize == 32 {
		return "c0000 0 0 0"
	}
	return "c000000000000 0"
}

func TestKernel_ListsWithoutOpening(t *testing.T) {
	k := sysfs(t, map[string]map[string]string{
		"event10": {"id/bustype": "0005", "id/vendor": "248a", "id/product": "8266", "name": "AB Shutter3",
			"uniq": "ff:ff:00:01:02:03", "phys": "00:1a", "capabilities/key": volumeButtons()},
		"event2": {"id/bustype": "0003", "id/vendor": "046d", "id/product": "c52b", "name": "Receiver",
			"capabilities/key": "10000", "capabilities/abs": "3", "properties": "40"},
		"mouse0": {"name": "no event node"},
		"event3": {}, // gone while it was read
	})
	all, err := k.List()
	if err != nil || len(all) != 2 || all[0].Node != "event2" || all[1].Node != "event10" {
		t.Fatalf("devices %v, %v", all, err)
	}
	if receiver := all[0]; receiver.steered() || !slices.Equal(receiver.Props.Codes(), []uint16{propAccelerometer}) {
		t.Errorf("the receiver has the properties %v", receiver.Props.Codes())
	}
	remote := all[1]
	if !remote.steered() {
		t.Error("a remote control is not recognised as a device with axes")
	}
	if got := remote.String(); got != `bluetooth 248a:8266 "AB Shutter3" (event10)` {
		t.Errorf("it is called %s", got)
	}
	if got := remote.Keys.Codes(); !slices.Equal(got, []uint16{114, 115}) {
		t.Errorf("keys %v, want the volume buttons", got)
	}
	want := Match{Bus: "bluetooth", Vendor: "248a", Product: "8266", Name: "AB Shutter3", Uniq: "ff:ff:00:01:02:03"}
	if got := remote.Match(); got != want {
		t.Errorf("match %+v", got)
	}
	if !want.Fits(remote) || want.Fits(all[0]) {
		t.Error("the match finds the wrong device")
	}
	if (Match{Name: "AB Shutter3", Phys: "elsewhere"}).Fits(remote) {
		t.Error("a match with another place of plugging fits")
	}
}

func TestKernel_ListsNoDevices(t *testing.T) {
	all, err := Kernel{Sys: filepath.Join(t.TempDir(), "absent")}.List()
	if len(all) != 0 || err != nil {
		t.Errorf("%v, %v", all, err)
	}
}

func TestKernel_RefusesNonInputDevice(t *testing.T) {
	k := sysfs(t, nil)
	fatal.If(t, os.WriteFile(filepath.Join(k.Dev, "event1"), nil, 0o600))
	errtest.NotNil(t, errtest.Of(k.Open(Info{Node: "event1"})), "a plain file was opened as an input device")
	errtest.NotNil(t, errtest.Of(k.Open(Info{Node: "event2"})), "an absent node was opened")
}

func TestParseKey_RoundTrip(t *testing.T) {
	for code := range uint16(keyCount) {
		if got, err := ParseKey(KeyName(code)); err != nil || got != code {
			t.Errorf("%d is called %s, which is %d, %v", code, KeyName(code), got, err)
		}
	}
	for code := range uint16(absCount) {
		if got, err := ParseAxis(AxisName(code)); err != nil || got != code {
			t.Errorf("axis %d is called %s, which is %d, %v", code, AxisName(code), got, err)
		}
	}
	for _, bad := range []string{"KEY_NONE", "", "768", "-1", "BTN_SOUTHH", "010"} {
		errtest.NotNil(t, errtest.Of(ParseKey(bad)), bad, " is taken for a key")
	}
}

func TestAxis_Deflection(t *testing.T) {
	limits := Range{Min: 0, Max: 200}
	for _, c := range []struct {
		axis     Axis
		position int32
		want     float64
	}{
		{Axis{Rest: RestCentre, DeadZone: 0.5}, 100, 0},
		{Axis{Rest: RestCentre, DeadZone: 0.5}, 150, 0},
		{Axis{Rest: RestCentre, DeadZone: 0.5}, 175, 0.5},
		{Axis{Rest: RestCentre, DeadZone: 0.5}, 0, -1},
		{Axis{Rest: RestCentre, DeadZone: 0.5, Inverted: true}, 0, 1},
		{Axis{Rest: RestLow, DeadZone: 0.1}, 0, 0},
		{Axis{Rest: RestLow, DeadZone: 0.1}, 200, 1},
		{Axis{Rest: RestHigh, DeadZone: 0.1, Inverted: true}, 0, -1},
		{Axis{Rest: RestLow, DeadZone: 0.1}, 900, 1}, // beyond what it said
	} {
		if got := c.axis.deflection(c.position, limits); got != c.want {
			t.Errorf("%+v at %d: %g, want %g", c.axis, c.position, got, c.want)
		}
	}
}

func TestConfig_NamesEveryMistake(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Good, cfg.Bad, cfg.Undo = "BTN_A", "BTN_SOUTH", "KEY_NO_SUCH" // two names of one key
	cfg.Axis = Axis{Code: "ABS_NONE", Rest: "left", DeadZone: 1}
	cfg.Device = Match{Bus: "train", Vendor: "wxyz"}
	err := cfg.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"bad is the same key as good", "undo is", "axis.code is", "axis.rest is",
		"axis.dead_zone is", "device.bus is", "device.vendor is"} {
		if !strings.Contains(err.Error(), "evdev: "+want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
	errtest.Nil(t, DefaultConfig().Validate(), "the default is refused")
}
