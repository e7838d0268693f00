package unitree

import (
	"encoding/binary"
	"testing"

	"optibfm/hal"
	"optibfm/hal/unitree/idl"
	"optibfm/internal/fatal"
)

// press updates a remote control with buttons at a time in ms.
func press(r *remote, at int64, buttons string) {
	var state [idl.RemoteSize]byte
	state[0] = 0x55
	if buttons != "" {
		binary.LittleEndian.PutUint16(state[2:], uint16(mustButtons(buttons)))
	}
	r.update(&state, at*1e6)
}

func newTestRemote(t *testing.T, change func(*Remote)) *remote {
	t.Helper()
	c := DefaultConfig().Remote
	if change != nil {
		change(&c)
	}
	r, err := newRemote(c)
	fatal.If(t, err)
	return r
}

func TestRemote_LabelsAndArmingAreApart(t *testing.T) {
	r := newTestRemote(t, nil)
	var got []hal.Press
	take := func() { got = append(got, func() []hal.Press { d := make([]hal.Press, 8); return d[:r.take(d)] }()...) }
	for at, buttons := range []string{"", "A", "A", "", "B+Y", "", "R1", "R1+A", "A", "", "X", "L2", "L2+B", ""} {
		press(r, int64(20*at), buttons)
		take()
		if r.takeArm() {
			t.Errorf("armed by %q", buttons)
		}
	}
	letters := ""
	for _, p := range got {
		letters += string(rune(p.Button))
	}
	if letters != "ABYX" { // A of R1+A is not released before the shoulder: no press
		t.Errorf("labels %q, want ABYX", letters)
	}
}

func TestRemote_ArmsAfterASecondOnce(t *testing.T) {
	r := newTestRemote(t, nil)
	press(r, 0, "")
	armed := 0
	for at := int64(20); at < 5000; at += 20 {
		press(r, at, "L1+start")
		if r.takeArm() {
			armed++
			if at < 1020 {
				t.Errorf("after %d ms", at)
			}
		}
	}
	if armed != 1 {
		t.Errorf("%d times", armed)
	}
	for at := int64(5000); at < 10_000; at += 20 { // more buttons, or fewer, are another combination
		press(r, at, []string{"L1+start+A", "start", "L1"}[at/20%3])
		if r.takeArm() {
			t.Error("armed by other buttons")
		}
	}
}

// TestRemote_IsNotArmedByAStuckButton holds the combination from the first state on, and over a
// loss of the states.
func TestRemote_IsNotArmedByAStuckButton(t *testing.T) {
	r := newTestRemote(t, nil)
	hold := func(from int64) {
		t.Helper()
		for at := from; at < from+3000; at += 20 {
			press(r, at, []string{"L1+start", "L1+start", "L1+start+A"}[at/1000%3])
			if r.takeArm() {
				t.Fatalf("armed %d ms after it was held, without a press", at-from)
			}
		}
	}
	hold(0)
	press(r, 3000, "")
	press(r, 3020, "L1+start")
	r.lost()
	hold(3040)
	press(r, 6040, "start")
	press(r, 6060, "L1+start")
	if press(r, 7060, "L1+start"); !r.takeArm() {
		t.Error("not armed by a press")
	}
	if press(r, 8080, "L1+start"); r.takeArm() {
		t.Error("armed twice by one press")
	}
}

func TestRemote_StopsWithAnyCombination(t *testing.T) {
	r := newTestRemote(t, func(c *Remote) { c.Stop = []string{"L2+B", "select"} })
	if !r.stopped() {
		t.Error("a remote control that was never heard does not stop")
	}
	for buttons, want := range map[string]bool{
		"": false, "B": false, "L2": false, "L2+B": true, "L2+B+up": true, "select": true,
	} {
		press(r, 0, buttons)
		if r.stopped() != want {
			t.Errorf("%q: stopped %t", buttons, !want)
		}
	}
	press(r, 0, "")
	var off [idl.RemoteSize]byte
	r.update(&off, 20e6)
	if r.stopped() {
		t.Error("one state of zeros stops")
	}
	r.update(&off, 20e6+int64(offAfter))
	if !r.stopped() {
		t.Error("a remote control that is off does not stop")
	}
	optional := newTestRemote(t, func(c *Remote) { c.Use = Optional })
	optional.update(&off, 0)
	optional.update(&off, 2*int64(offAfter))
	if optional.stopped() {
		t.Error("an optional remote control that is off stops")
	}
}
