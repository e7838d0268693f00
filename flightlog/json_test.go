package flightlog

import (
	"encoding/json"
	"testing"

	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
)

func TestRecord_MarshalsAnUnknownTickAsNull(t *testing.T) {
	known, unknown := testLabel(1), testLabel(2)
	known.Tick = 7
	w, path := create(t, testMetadata(testShape), Options{NoSync: true})
	fatal.If(t, w.WriteLabel(known))
	fatal.If(t, w.WriteLabel(unknown))
	fatal.If(t, w.WriteLabel(rewardsrc.Label{ID: 3, Tick: rewardsrc.NoTick, Kind: rewardsrc.Undo}))
	fatal.If(t, w.Close())
	want := []any{"7", nil, nil}
	for record, err := range open(t, path).Records() {
		fatal.If(t, err)
		text, err := json.Marshal(record)
		fatal.If(t, err)
		var line struct {
			Message map[string]any `json:"message"`
		}
		fatal.If(t, json.Unmarshal(text, &line))
		tick, ok := line.Message["tick"]
		if !ok || tick != want[0] || line.Message["id"] == nil || line.Message["kind"] == nil {
			t.Errorf("want tick %v: %s", want[0], text)
		}
		want = want[1:]
	}
	if len(want) > 0 {
		t.Errorf("%d labels are missing", len(want))
	}
}
