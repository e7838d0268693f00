package rewardsrc

import (
	"testing"

	"optibfm/internal/errtest"
)

// shown returns an Attribution that showed request 3, about tick 40, at 1000.
func shown(reaction int64) *Attribution {
	a := &Attribution{Reaction: reaction}
	a.Ask(Request{ID: 3, Tick: 40, At: 900, State: Open}, 1000)
	return a
}

func press(at int64) Input { return Input{Kind: Value, Value: 1, At: at} }

func isUnasked(l Label) bool { return l.Request == 0 && l.Tick == NoTick }

func TestAttribution_PressWithoutRequestIsUnasked(t *testing.T) {
	var a Attribution
	got, ok := a.Label(Input{Kind: Value, Mode: Held, Value: 0.5, At: 77})
	if want := (Label{Kind: Value, Mode: Held, Tick: NoTick, At: 77, Value: 0.5}); !ok || got != want {
		t.Errorf("label %+v, %v; want %+v", got, ok, want)
	}
}

func TestAttribution_FirstPressAnswersRequest(t *testing.T) {
	a := shown(0)
	got, ok := a.Label(press(1500))
	if want := (Label{Kind: Value, Request: 3, Tick: 40, At: 1500, Value: 1}); !ok || got != want {
		t.Errorf("label %+v, %v; want %+v", got, ok, want)
	}
	if a.Wanted() {
		t.Error("still wanted after the answer")
	}
	if got, _ := a.Label(press(1600)); !isUnasked(got) {
		t.Errorf("the second press is %+v, want it unasked", got)
	}
}

func TestAttribution_PressWithinReactionTimeIsUnasked(t *testing.T) {
	a := shown(150)
	if got, _ := a.Label(press(1100)); !isUnasked(got) {
		t.Errorf("a press after 100 ns of 150 is %+v, want it unasked", got)
	}
	if !a.Wanted() {
		t.Error("the request was closed by it")
	}
	if got, _ := a.Label(press(1150)); got.Request != 3 {
		t.Errorf("a press after 150 ns is %+v, want an answer", got)
	}
}

func TestAttribution_PressBeforeExpiryKeepsTheRequestsTick(t *testing.T) {
	a := shown(0)
	a.Ask(Request{ID: 3, Tick: 40, State: Expired}, 2000)
	got, ok := a.Label(press(1900))
	if !ok || got.Request != 0 || got.Tick != 40 {
		t.Errorf("label %+v, %v; want an unasked label of tick 40", got, ok)
	}
	if got, _ := a.Label(press(1950)); !isUnasked(got) {
		t.Errorf("the second press is %+v, want it unasked", got)
	}
}

func TestAttribution_PressAfterExpiryIsUnasked(t *testing.T) {
	a := shown(0)
	a.Ask(Request{ID: 3, Tick: 40, State: Expired}, 2000)
	if got, _ := a.Label(press(2000)); !isUnasked(got) {
		t.Errorf("label %+v, want it unasked", got)
	}
}

func TestAttribution_RequestAnsweredElsewhereIsClosed(t *testing.T) {
	a := shown(0)
	a.Ask(Request{ID: 9, State: Answered}, 1200) // another request
	if !a.Wanted() {
		t.Fatal("closed by the end of another request")
	}
	a.Ask(Request{ID: 3, State: Answered}, 1200)
	if got, _ := a.Label(press(1500)); a.Wanted() || !isUnasked(got) {
		t.Errorf("label %+v, want it unasked", got)
	}
}

func TestAttribution_CantTellNeedsARequest(t *testing.T) {
	a := shown(0)
	if got, ok := a.Label(Input{Kind: CantTell, At: 1500}); !ok || got.Request != 3 {
		t.Errorf("label %+v, %v; want it to close request 3", got, ok)
	}
	if got, ok := a.Label(Input{Kind: CantTell, At: 1600}); ok {
		t.Errorf("label %+v although nothing was asked", got)
	}
}

func TestAttribution_UndoLeavesRequestOpen(t *testing.T) {
	a := shown(0)
	if got, ok := a.Label(Input{Kind: Undo, At: 1500}); !ok || got.Kind != Undo || got.Request != 0 {
		t.Errorf("label %+v, %v; want an undo", got, ok)
	}
	if !a.Wanted() {
		t.Error("the undo closed the request")
	}
}

func TestAttribution_ComparisonsAndGoalsAreUnasked(t *testing.T) {
	for _, in := range []Input{Better(2, -2), Worse(2, -2), AtGoal(2, -2)} {
		a := shown(0)
		in.At = 1500
		got, ok := a.Label(in)
		if want := (Label{Kind: in.Kind, Tick: NoTick, At: 1500, Value: in.Value}); !ok || got != want || !a.Wanted() {
			t.Errorf("%v: label %+v, %v; want %+v and an open request", in.Kind, got, ok, want)
		}
	}
}

func TestInput_ScalesWithGoodAndBad(t *testing.T) {
	for _, c := range []struct {
		in   Input
		want Input
	}{
		{Better(1, -1), Input{Kind: Comparison, Value: 0.5}},
		{Worse(1, -1), Input{Kind: Comparison, Value: -0.5}},
		{Better(10, 2), Input{Kind: Comparison, Value: 2}},
		{AtGoal(10, 2), Input{Kind: Goal, Value: 4}},
	} {
		if c.in != c.want {
			t.Errorf("input %+v, want %+v", c.in, c.want)
		}
	}
}

func TestAttribution_AnswerByID(t *testing.T) {
	for name, c := range map[string]struct {
		id          uint64
		at          int64
		uncertainty int64
		end         RequestState // of request 3, before the press; 0: still open
		want        error
	}{
		"open":                         {id: 3, at: 1500},
		"expired":                      {id: 3, at: 1500, end: Expired},
		"answered elsewhere":           {id: 3, at: 1500, end: Answered, want: ErrAnswered},
		"unknown":                      {id: 11, at: 1500, want: ErrTooOld},
		"none":                         {id: 0, at: 1500, want: ErrTooOld},
		"before the question":          {id: 3, at: 899, want: ErrBeforeQuestion},
		"within the clock uncertainty": {id: 3, at: 890, uncertainty: 10},
	} {
		a := shown(0)
		if c.end != 0 {
			a.Ask(Request{ID: 3, State: c.end}, 1400)
		}
		got, err := a.Answer(press(c.at), c.id, c.uncertainty)
		errtest.Is(t, err, c.want, name)
		if c.want == nil && (got.Request != 3 || got.Tick != 40 || got.At != c.at || a.Wanted()) {
			t.Errorf("%s: label %+v, wanted %v; want an answer to request 3 that closes it", name, got, a.Wanted())
		}
		errtest.NotNil(t, errtest.Of(a.Answer(press(c.at), c.id, c.uncertainty)), name, ": answered twice")
	}
}

func TestAttribution_ForgetsOldRequests(t *testing.T) {
	a := shown(0)
	a.Ask(Request{ID: 3 + 8, State: Open}, 1100)
	errtest.Is(t, errtest.Of(a.Answer(press(1500), 3, 0)), ErrTooOld)
}
