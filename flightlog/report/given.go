package report

import (
	"crypto/sha256"
	"encoding/hex"
)

// Labelling is the data to label a log in its page. The page keeps the labels in
// the browser's storage and downloads a file for `optibfm log label`.
type Labelling struct {
	Refused            string  // why the log cannot be labelled; "": it can
	Good, Bad, Neutral float64 // rewards of the keys 9, 1 and 0, also of a log that cannot be labelled
	Proposed           []Proposal
}

// Proposal is a moment whose label would teach much.
type Proposal struct {
	Tick     uint64
	Gain     float64 // D-gap, nats
	Expected float64 // the label that the belief predicts
}

// dataGiven is the input of page/label.js.
type dataGiven struct {
	Refused  string         `json:"refused,omitempty"`
	Key      string         `json:"key"` // of the labels in the browser's storage
	Good     float64        `json:"good"`
	Bad      float64        `json:"bad"`
	Neutral  float64        `json:"neutral"`
	Proposed []dataProposal `json:"proposed"`
}

type dataProposal struct {
	Pos      int     `json:"pos"`
	Tick     uint64  `json:"tick"`
	Time     float64 `json:"time"` // s since the first tick
	State    uint32  `json:"state"`
	Gain     number  `json:"gain"`
	Expected number  `json:"expected"`
}

func (d *data) addGiven(c *collected, l *Labelling) {
	if l == nil {
		return
	}
	d.Given = &dataGiven{Refused: l.Refused, Proposed: []dataProposal{}}
	if l.Refused != "" {
		return
	}
	var state []uint32
	for pos := 0; pos < c.ticks(); pos += d.Bucket {
		state = append(state, c.columns.state[pos])
	}
	d.Starts.State = uint32s(state)
	// The states identify the log: a copy has the same key.
	sum := sha256.Sum256([]byte(uint32s(c.columns.state)))
	d.Given.Key = "optibfm-labels-" + hex.EncodeToString(sum[:8])
	d.Given.Good, d.Given.Bad, d.Given.Neutral = l.Good, l.Bad, l.Neutral
	for _, p := range l.Proposed {
		pos, found := c.position(p.Tick)
		if !found {
			continue
		}
		d.Given.Proposed = append(d.Given.Proposed, dataProposal{
			Pos: pos, Tick: p.Tick, Time: c.columns.time[pos], State: c.columns.state[pos],
			Gain: number(p.Gain), Expected: number(p.Expected),
		})
	}
}
