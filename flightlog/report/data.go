package report

import (
	"maps"
	"math"
	"slices"

	"optibfm/controller"
	"optibfm/flightlog"
)

// maxNotes is the largest number of faults and of gaps in the page.
const maxNotes = 500

// data is the input of the page's script, see page/data.js.
type data struct {
	Name      string      `json:"name"`
	D         int         `json:"d"`
	N         int         `json:"n"` // ticks
	FirstTick uint64      `json:"first_tick"`
	PeriodMS  float64     `json:"period_ms"`
	Simulated bool        `json:"simulated"` // the run was not timed
	Config    dataConfig  `json:"config"`
	Bucket    int         `json:"bucket"` // ticks that share a point of a column
	Columns   dataColumns `json:"columns"`
	Starts    dataStarts  `json:"starts"`
	Labels    dataLabels  `json:"labels"`
	Requests  dataAsked   `json:"requests"`
	Episodes  packed      `json:"episodes"` // uint32: positions at which an episode starts
	Faults    []dataSpan  `json:"faults"`
	Gaps      []dataSpan  `json:"gaps"` // unverified ticks
	Events    []dataEvent `json:"events"`
	Moments   dataMoments `json:"moments"`
	Study     study       `json:"study"`
	Given     *dataGiven  `json:"given"` // labels that a person gives in the page; null: none

	Channels dataChannels `json:"channels"`
	Pictures dataPictures `json:"pictures"`
}

type dataConfig struct {
	Kappa      float64 `json:"kappa"`
	GateOff    bool    `json:"gate_off"`
	Rho        float64 `json:"rho"`
	MaxPlanAge uint64  `json:"max_plan_age"`
	Middle     float64 `json:"middle"` // between the labels good and bad
}

// dataColumns are float32, see column.
type dataColumns struct {
	DGap     packed `json:"dgap"`
	Estimate packed `json:"estimate"`
	Spread   packed `json:"spread"`
	Reward   packed `json:"reward"` // empty if the log has none
	Age      packed `json:"age"`
	Turn     packed `json:"turn"`
	Late     packed `json:"late"` // empty if the run was not timed
	Busy     packed `json:"busy"` // empty if the run was not timed
	Skipped  packed `json:"skipped"`
}

// dataStarts have one entry a point: the first tick of its bucket.
type dataStarts struct {
	Tick  packed `json:"tick"` // uint32: index since the first tick
	Time  packed `json:"time"` // float64: s since the first tick
	Flags packed `json:"flags"`
	State packed `json:"state"` // uint32: flightlog.StateSum; empty if the log cannot be labelled
}

// dataLabels has one row for each label and undo.
type dataLabels struct {
	Pos     packed   `json:"pos"`     // uint32: of the tick that took it in
	About   packed   `json:"about"`   // int32: of the tick that it is about, -1 if unknown
	Value   packed   `json:"value"`   // float32
	Kind    packed   `json:"kind"`    // uint8: rewardsrc.Kind
	Outcome packed   `json:"outcome"` // uint8: controller.Outcome
	Asked   packed   `json:"asked"`   // uint8
	Words   []string `json:"words"`   // of the outcomes, by number
}

type dataAsked struct {
	From  packed `json:"from"`  // uint32: position of the tick that it is about
	To    packed `json:"to"`    // uint32: position of the tick in which it ended
	State packed `json:"state"` // uint8: rewardsrc.RequestState
	DGap  packed `json:"dgap"`  // float32
}

type dataSpan struct {
	From int    `json:"from"` // positions, inclusive
	To   int    `json:"to"`
	Text string `json:"text"`
}

type dataEvent struct {
	Time   float64    `json:"time"` // s since the first tick
	Pos    int        `json:"pos"`
	Level  string     `json:"level"`
	Text   string     `json:"text"`
	Fields [][]string `json:"fields,omitempty"`
}

// dataMoments is the belief at some ticks.
type dataMoments struct {
	Pos   packed `json:"pos"`   // uint32
	Norm  packed `json:"norm"`  // float64
	Z     packed `json:"z"`     // float32 [moments, d]
	Sigma packed `json:"sigma"` // float32 [moments, d], or empty
}

func newData(c *collected, b *believed, s study, name string, l *Labelling) data {
	v, size := &c.columns, bucket(c.ticks(), maxPoints)
	d := data{
		Name: name, D: c.meta.Shape.Latent, N: c.ticks(), Simulated: c.meta.Clock.Simulated,
		PeriodMS: float64(c.meta.Robot.Period) / 1e6,
		Config:   newDataConfig(c.meta.Control, l), Bucket: size,
		Columns: dataColumns{
			DGap: column(v.dgap, size), Estimate: column(b.estimate, size), Spread: column(b.spread, size),
			Age: column(v.age, size), Turn: column(v.turn, size), Skipped: column(v.skipped, size),
		},
		Episodes: uint32s(c.episodes), Faults: faultSpans(c), Gaps: gapSpans(c, b.result.Gaps),
		Events: newDataEvents(c), Moments: newDataMoments(b.moments), Study: s,
		Channels: newDataChannels(c.meta, c.channels), Pictures: newDataPictures(c),
	}
	if c.ticks() > 0 {
		d.FirstTick = v.index[0]
	}
	if !math.IsNaN(meanOf(v.reward)) {
		d.Columns.Reward = column(v.reward, size)
	}
	if !d.Simulated {
		d.Columns.Late, d.Columns.Busy = column(v.late, size), column(v.busy, size)
	}
	d.addStarts(c)
	d.addLabels(c)
	d.addRequests(c)
	d.addGiven(c, l)
	return d
}

func newDataConfig(cfg controller.Config, l *Labelling) dataConfig {
	d := dataConfig{
		Kappa: cfg.Gate.Kappa, GateOff: cfg.Gate.Off, Rho: cfg.Rho, MaxPlanAge: cfg.MaxPlanAge,
		Middle: cfg.LabelRange.Middle(),
	}
	if l != nil { // the log of an earlier program may have no range
		d.Middle = (l.Good + l.Bad) / 2
	}
	return d
}

func (d *data) addStarts(c *collected) {
	v := &c.columns
	var tick, flags []uint32
	var time []float64
	for pos := 0; pos < c.ticks(); pos += d.Bucket {
		tick = append(tick, uint32(v.index[pos]-v.index[0]))
		time = append(time, v.time[pos])
		all := controller.Flags(0)
		for _, f := range v.flags[pos:min(pos+d.Bucket, c.ticks())] {
			all |= f
		}
		flags = append(flags, uint32(all))
	}
	d.Starts = dataStarts{Tick: uint32s(tick), Time: float64s(time), Flags: uint32s(flags)}
}

func (d *data) addLabels(c *collected) {
	var pos []uint32
	var about []int32
	var value []float32
	var kind, outcome, asked []uint8
	for _, l := range c.labels {
		where, found := c.position(l.About)
		if !found || !l.enters() {
			where = -1
		}
		pos, about = append(pos, uint32(l.pos)), append(about, int32(where))
		value = append(value, float32(l.Value))
		kind, outcome = append(kind, uint8(l.Kind)), append(outcome, uint8(l.Outcome))
		asked = append(asked, bit(l.Request != 0))
	}
	d.Labels = dataLabels{
		Pos: uint32s(pos), About: int32s(about), Value: float32s(value),
		Kind: bytesOf(kind), Outcome: bytesOf(outcome), Asked: bytesOf(asked),
	}
	for o := range controller.RobotStopped + 1 {
		d.Labels.Words = append(d.Labels.Words, o.String())
	}
}

func (d *data) addRequests(c *collected) {
	var from, to []uint32
	var state []uint8
	var dgap []float32
	for _, id := range c.opened {
		r := c.requests[id]
		pos, found := c.position(r.tick)
		if !found {
			continue
		}
		from, to = append(from, uint32(pos)), append(to, uint32(c.closed(pos, id)))
		state, dgap = append(state, uint8(r.state)), append(dgap, float32(r.dgap))
	}
	d.Requests = dataAsked{From: uint32s(from), To: uint32s(to), State: bytesOf(state), DGap: float32s(dgap)}
}

func faultSpans(c *collected) []dataSpan {
	spans := []dataSpan{}
	for _, f := range c.faults[:min(len(c.faults), maxNotes)] {
		spans = append(spans, dataSpan{f.from, f.to, f.fault.String()})
	}
	return spans
}

func gapSpans(c *collected, gaps []flightlog.Gap) []dataSpan {
	spans := []dataSpan{}
	for _, g := range gaps[:min(len(gaps), maxNotes)] {
		from, _ := c.position(g.Tick)
		to := c.ticks() - 1
		if g.Ended {
			to, _ = c.position(g.Resumed)
		}
		spans = append(spans, dataSpan{from, to, g.String()})
	}
	return spans
}

func newDataEvents(c *collected) []dataEvent {
	events := []dataEvent{}
	for _, e := range c.events {
		pos := c.at(e.At)
		event := dataEvent{Pos: pos, Level: e.Level.String(), Text: e.Text}
		if c.ticks() > 0 {
			event.Time = float64(e.At-c.columns.sense[0]) / 1e9
		}
		for _, key := range slices.Sorted(maps.Keys(e.Fields)) {
			event.Fields = append(event.Fields, []string{key, e.Fields[key]})
		}
		events = append(events, event)
	}
	return events
}

func newDataMoments(moments []moment) dataMoments {
	var pos []uint32
	var norm []float64
	var z, sigma []float32
	for _, m := range moments {
		pos, norm = append(pos, uint32(m.pos)), append(norm, m.norm)
		z, sigma = append(z, m.z...), append(sigma, m.sigma...)
	}
	return dataMoments{Pos: uint32s(pos), Norm: float64s(norm), Z: float32s(z), Sigma: float32s(sigma)}
}
