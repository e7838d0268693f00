package web

import (
	"encoding/json"
	"time"
)

const (
	showEvery  = 200 * time.Millisecond // the live view
	pause      = 25 * time.Millisecond  // between two states, at least
	historyLen = 450                    // points: 90 s
)

// point is one point of the page's curves, in the order that charts.js expects.
type point [9]Number

// history is the newest points of the live view, for browsers that connect later.
type history struct {
	points []point
	tick   uint64
}

func (h *history) add(v *View) {
	if v.Tick == h.tick && len(h.points) > 0 || v.Tick == 0 {
		return
	}
	h.tick = v.Tick
	if len(h.points) == historyLen {
		copy(h.points, h.points[1:])
		h.points = h.points[:historyLen-1]
	}
	h.points = append(h.points, pointOf(v))
}

func pointOf(v *View) point {
	return point{
		v.ElapsedS, v.DGap, v.Estimate, v.Reward, v.Information, v.BeliefNorm, v.LateMS,
		Number(v.Labels), Number(v.Asked),
	}
}

// state is the complete state that every browser receives: skipping one loses
// nothing.
type state struct {
	Type     string        `json:"type"` // "state"
	View     *View         `json:"view"`
	Request  *requestState `json:"request"`
	Outcomes []outcome     `json:"outcomes"`
	Events   []eventState  `json:"events"`
	Operator operatorState `json:"operator"`
	Devices  int           `json:"devices"`           // connected
	Picture  string        `json:"picture,omitempty"` // why there is none
	Stopped  string        `json:"stopped,omitempty"`
	Ended    string        `json:"ended,omitempty"`
	Failed   bool          `json:"failed,omitempty"` // the end is an alarm
	Keep     string        `json:"keep,omitempty"`   // the command that saves the task after the end
}

type requestState struct {
	ID      uint64 `json:"id"`
	AgeMS   Number `json:"age_ms"` // of the state to label
	LeftMS  Number `json:"left_ms"`
	TotalMS Number `json:"total_ms"`
	DGap    Number `json:"dgap"`
}

type eventState struct {
	AgeMS Number `json:"age_ms"`
	Level Level  `json:"level"`
	Text  string `json:"text"`
}

// operatorState names the device that labels.
type operatorState struct {
	Conn   uint64 `json:"conn"`             // the connection that labels, 0 for none
	Device string `json:"device,omitempty"` // its device, connected or not
	Asking string `json:"asking,omitempty"` // the device that asks for the seat
}

// broadcast publishes the state to the browsers until Halt. It waits for none of
// them: each has a slot for the newest state and a goroutine that sends it.
func (s *Server) broadcast() {
	defer close(s.drained)
	ticker := time.NewTicker(showEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.quit:
			s.publishState()
			return
		case <-ticker.C:
		case <-s.changed:
		}
		s.publishState()
		time.Sleep(pause)
	}
}

func (s *Server) publishState() {
	view := s.view.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history.add(view)
	if len(s.clients) == 0 {
		return
	}
	text, err := json.Marshal(s.state(view))
	if err != nil {
		panic(err) // plain data; Number encodes every float
	}
	for c := range s.clients {
		c.newest.Store(&text)
		wake(c.fresh)
	}
}

// state returns the current state. The caller holds the mutex.
func (s *Server) state(view *View) state {
	b, now := s.published.Load(), s.now()
	st := state{
		Type: "state", View: view, Outcomes: b.outcomes, Ended: b.ended.Why, Devices: len(s.clients),
		Operator: operatorState{Device: nameOf(s.seat.holder), Asking: nameOf(s.seat.asking)},
	}
	st.Failed, st.Keep = b.ended.Failed, b.ended.Keep
	if s.seat.client != nil {
		st.Operator.Conn = s.seat.client.number
	}
	if r := b.request; r.id != 0 {
		st.Request = &requestState{
			ID: r.id, AgeMS: millis(now - r.at), LeftMS: millis(max(r.expires-now, 0)),
			TotalMS: millis(r.expires - r.asked), DGap: Number(r.dgap),
		}
	}
	for _, e := range b.events {
		st.Events = append(st.Events, eventState{millis(now - e.at), e.level, e.text})
	}
	if s.opts.Pictures != nil {
		st.Picture = s.opts.Pictures.Problem()
	}
	if by := s.stopped.Load(); by != nil {
		st.Stopped = *by
	}
	return st
}

func nameOf(d *session) string {
	if d == nil {
		return ""
	}
	return d.name
}

func millis(ns int64) Number { return Number(float64(ns) / 1e6) }
