package web

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"optibfm/internal/fatal"
)

func TestParseMessage_RoundTrip(t *testing.T) {
	want := message{Type: typePress, ID: 1 << 52, At: 1234.5, Kind: kindValue, Value: -0.25, Request: 9, Shown: 1000}
	got, err := parseMessage(marshal(want))
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestParseMessage_RefusesMalformed(t *testing.T) {
	for name, text := range map[string]string{
		"empty":             ``,
		"an array":          `[1]`,
		"truncated":         `{"type":"stop"`,
		"two messages":      `{"type":"stop"}{"type":"stop"}`,
		"an unknown key":    `{"type":"stop","arm":true}`,
		"an unknown type":   `{"type":"arm"}`,
		"an unknown kind":   `{"type":"press","kind":"great","at":1}`,
		"another kind":      `{"type":"press","kind":"Goal","at":1}`,
		"an unknown role":   `{"type":"invite","role":"root"}`,
		"a negative time":   `{"type":"clock","id":1,"at":-1}`,
		"a time too large":  `{"type":"clock","id":1,"at":1e300}`,
		"a value too large": `{"type":"press","kind":"value","value":1e999}`,
		"a negative number": `{"type":"press","kind":"good","id":-1}`,
		"shown after press": `{"type":"press","kind":"good","at":5,"request":1,"shown":6}`,
		"a nameless task":   `{"type":"task","kind":"load"}`,
		"a long name":       `{"type":"task","kind":"save","name":"` + strings.Repeat("x", maxTaskName+1) + `"}`,
		"an unknown change": `{"type":"task","kind":"arm","name":"x"}`,
		"too long":          `{"type":"stop","kind":"` + strings.Repeat("x", maxMessage) + `"}`,
	} {
		if m, err := parseMessage([]byte(text)); !errors.Is(err, errMessage) {
			t.Errorf("%s: %+v, %v; want errMessage", name, m, err)
		}
	}
}

func FuzzParseMessage(f *testing.F) {
	f.Add([]byte(`{"type":"press","id":3,"at":12.5,"kind":"good","request":2,"shown":3}`))
	f.Add([]byte(`{"type":"clock","id":1,"at":0.1}`))
	f.Add([]byte(`{"type":"press","id":4,"at":12.5,"kind":"better"}`))
	f.Add([]byte(`{"type":"press","id":5,"at":12.5,"kind":"worse","request":2,"shown":13}`))
	f.Add([]byte(`{"type":"press","id":6,"at":12.5,"kind":"goal","value":1}`))
	f.Add([]byte(`{"type":"task","kind":"save","name":"walk","replace":true}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseMessage(data)
		if err != nil {
			if m.Type != "" && !errors.Is(err, errMessage) {
				t.Errorf("error %v, want errMessage", err)
			}
			return
		}
		if math.IsNaN(m.At) || m.At < 0 || m.At > maxBrowserMS || math.IsInf(m.Value, 0) || math.IsNaN(m.Value) {
			t.Fatalf("accepted %+v", m)
		}
		text, err := json.Marshal(m)
		fatal.If(t, err)
		if again, err := parseMessage(text); err != nil || again != m {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}
