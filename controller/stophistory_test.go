package controller

import (
	"math"
	"testing"

	"optibfm/internal/fatal"
	"optibfm/rewardsrc"
)

func TestStopHistory_RefusesRewardsAboutStops(t *testing.T) {
	h := NewStopHistory(CreditConfig{
		DelayS: 0.2, WidthS: 0.4, Held: HeldConfig{DelayS: 0.3, WidthS: 0.2}, CompareS: 2,
	})
	// Stopped during the ticks [100, 200), sensed in [10 s, 20 s), and from
	// tick 300 on.
	for tick := uint64(1); tick <= 310; tick++ {
		h.Note(tick, int64(tick)*1e8, 100 <= tick && tick < 200 || tick >= 300)
	}
	const s = int64(1e9)
	undo := rewardsrc.Label{Kind: rewardsrc.Undo, Tick: rewardsrc.NoTick, At: 31 * s}
	cantTell := rewardsrc.Label{Kind: rewardsrc.CantTell, Request: 7, Tick: 99, At: 31 * s}
	for name, c := range map[string]struct {
		label rewardsrc.Label
		want  bool
	}{
		"the last tick before the stop":          {value(1, 99, 1), true},
		"the first tick of the stop":             {value(1, 100, 1), false},
		"the last tick of the stop":              {value(1, 199, 1), false},
		"the first tick after the stop":          {value(1, 200, 1), true},
		"a tick of the second stop":              {value(1, 305, 1), false},
		"a future tick":                          {value(1, 1<<40, 1), false},
		"a window before the stop":               {press(1, 10*s+2e8-1, 1), true},
		"a window that ends with the stop":       {press(1, 10*s+2e8, 1), false},
		"a window within the stop":               {press(1, 15*s, 1), false},
		"a window from the stop to its end":      {press(1, 20*s+6e8-1, 1), false},
		"a window after the stop":                {press(1, 20*s+6e8, 1), true},
		"a stream's window before the stop":      {held(press(1, 10*s+3e8-1, 1)), true},
		"a stream's window with the stop":        {held(press(1, 10*s+3e8, 1)), false},
		"a stream's window after the stop":       {held(press(1, 20*s+5e8, 1)), true},
		"a comparison with a moment of the stop": {compared(press(1, 20*s+26e8-1, 1)), false},
		"a comparison of moments after the stop": {compared(press(1, 20*s+26e8, 1)), true},
		"now":                                    {press(1, 31*s, 1), false},
		"an answer":                              {answer(1, 7, 1), true},
		"an undo during a stop":                  {undo, true},
		"a can't tell during a stop":             {cantTell, true},
		"a window longer before the first one":   {press(1, 0, 1), true},
	} {
		if got := h.Admits(c.label); got != c.want {
			t.Errorf("%s: admitted %v, want %v", name, got, c.want)
		}
	}
}

func compared(l rewardsrc.Label) rewardsrc.Label {
	l.Kind = rewardsrc.Comparison
	return l
}

func held(l rewardsrc.Label) rewardsrc.Label {
	l.Mode = rewardsrc.Held
	return l
}

func TestStopHistory_RunUntilEndsWithTheFirstStoppedTick(t *testing.T) {
	h := NewStopHistory(CreditConfig{})
	if got := h.RunUntil(5); got != math.MaxInt64 {
		t.Errorf("before a stop: %d", got)
	}
	h.Note(10, 1000, true)
	h.Note(15, 1500, false)
	for tick, want := range map[uint64]int64{9: 1000, 10: 0, 14: 0, 15: math.MaxInt64} {
		if got := h.RunUntil(tick); got != want {
			t.Errorf("tick %d: %d, want %d", tick, got, want)
		}
	}
}

func TestStopHistory_RefusesOlderThanItHolds(t *testing.T) {
	h := NewStopHistory(CreditConfig{})
	for tick := uint64(1); tick <= 60; tick++ {
		h.Note(tick, int64(tick), tick%2 == 0)
	}
	for tick := uint64(1); tick <= 60; tick++ {
		if got, want := h.Admits(value(1, tick, 1)), tick%2 == 1 && tick > 28; got != want {
			t.Errorf("tick %d: admitted %v, want %v", tick, got, want)
		}
	}
}

// stoppedRig returns a robot that moved for two seconds, asked about its first
// tick, and was then stopped for two seconds. stop is the first tick with a state
// sensed after the stop.
func stoppedRig(t *testing.T) (r *rig, robot *stoppableRig, stop uint64) {
	t.Helper()
	r, robot = newStoppableRig(t, Safety{})
	r.steps(2)
	r.arm()
	r.steps(100)
	if len(r.source.asked) == 0 || r.tick.Request == 0 {
		t.Fatal("nothing was asked")
	}
	robot.Pressed = true
	r.fails(FaultEStop)
	r.steps(100)
	return r, robot, r.next - 100
}

func TestAgent_RefusesLabelsAboutStops(t *testing.T) {
	r, robot, stop := stoppedRig(t)
	now := func() int64 { return r.tick.SenseAt }
	before := int64(stop) * int64(testPeriod) // a period before that tick was sensed
	id := uint64(0)
	for _, c := range []struct {
		name  string
		label func() rewardsrc.Label
		want  Outcome
	}{
		{"a press", func() rewardsrc.Label { return press(id, now(), 1) }, RobotStopped},
		{"a stream's", func() rewardsrc.Label { return held(press(id, now(), 1)) }, RobotStopped},
		{"an oracle's", func() rewardsrc.Label { return value(id, r.tick.Index, 1) }, RobotStopped},
		{"an oracle's of the first stopped tick", func() rewardsrc.Label { return value(id, stop, 1) }, RobotStopped},
		{"an oracle's of the tick of the stop", func() rewardsrc.Label { return value(id, stop-1, 1) }, Applied},
		{"a press about the time before the stop", func() rewardsrc.Label { return press(id, before, 1) }, Applied},
		{"an undo", func() rewardsrc.Label { return rewardsrc.Label{ID: id, Kind: rewardsrc.Undo} }, Applied},
		{"an answer", func() rewardsrc.Label { return answer(id, r.tick.Request, 1) }, Applied},
	} {
		hash := r.tick.Hash
		id++
		r.source.give(c.label())
		r.steps(1)
		if got := r.applied().Outcome; got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if changed := r.tick.Hash != hash; changed != (c.want == Applied) {
			t.Errorf("%s: the belief changed: %v", c.name, changed)
		}
	}

	robot.Pressed = false
	r.steps(1)
	fatal.If(t, r.agent.Reset())
	r.steps(1)
	r.source.give(press(id+1, now(), 1))
	r.steps(1)
	if got := r.applied().Outcome; got != RobotStopped {
		t.Errorf("a press about the stop after a reset: %v", got)
	}
	r.steps(40)
	r.source.give(press(id+2, now(), 1))
	r.steps(1)
	if got := r.applied().Outcome; got != Applied {
		t.Errorf("a press after the reset: %v", got)
	}
}

func TestAgent_RefusesComparisonsWithStops(t *testing.T) {
	r, robot, _ := stoppedRig(t)
	robot.Pressed = false
	r.steps(1)
	fatal.If(t, r.agent.Reset())
	r.source.give(rewardsrc.Label{ID: 1, Kind: rewardsrc.CantTell, Request: r.tick.Request})
	r.steps(1)
	r.arm()
	r.steps(20)
	request := r.tick.Request
	if request == 0 {
		t.Fatal("nothing was asked")
	}
	r.source.give(compared(value(2, r.tick.Index, 1)), compared(answer(3, request, 1)))
	r.steps(1)
	for _, a := range r.tick.Labels[:2] {
		if a.Outcome != RobotStopped {
			t.Errorf("label %d: %v", a.ID, a.Outcome)
		}
	}
	r.steps(int(r.agent.learner.compared))
	r.source.give(compared(value(4, r.tick.Index, 1)))
	if r.steps(1); r.applied().Outcome != Applied {
		t.Errorf("of moments after the stop: %v", r.applied().Outcome)
	}
}

func TestAgent_AnswersAreNotAboutTheTimeAfterAStop(t *testing.T) {
	r, _, stop := stoppedRig(t)
	r.agent.learner.windows.untilPress = true
	late := answer(1, r.tick.Request, 1)
	late.At = int64(stop)*int64(testPeriod) + 1e9 // a second after the stop
	r.source.give(late)
	r.steps(1)
	if a := r.applied(); a.Outcome != Applied || a.To >= stop || a.To <= a.From {
		t.Errorf("%+v, want ticks before %d", a, stop)
	}
}
