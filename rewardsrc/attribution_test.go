package rewardsrc

import "testing"

func asked(reaction int64) *Attribution {
	a := &Attribution{Reaction: reaction}
	a.Ask(Request{ID: 3, Tick: 40, State: Open}, 1000)
	return a
}

func TestAPressWithoutARequestIsAnUnaskedLabelOfItsMoment(t *testing.T) {
	var a Attribution
	got, ok := a.Label(Value, 0.5, 77)
	if want := (Label{Kind: Value, Tick: NoTick, At: 77, Value: 0.5}); !ok || got != want {
		t.Errorf("label %+v, %v; want %+v", got, ok, want)
	}
}

func TestTheFirstPressAnswersTheRequestAndTheSecondIsUnasked(t *testing.T) {
	a := asked(0)
	got, ok := a.Label(Value, 1, 1500)
	if want := (Label{Kind: Value, Request: 3, Tick: 40, At: 1500, Value: 1}); !ok || got != want {
		t.Errorf("label %+v, %v; want %+v", got, ok, want)
	}
	if a.Wanted() {
		t.Error("still wanted after the answer")
	}
	if got, _ := a.Label(Value, 1, 1600); got.Request != 0 || got.Tick != NoTick {
		t.Errorf("the second press is %+v, want it unasked", got)
	}
}

func TestAPressFasterThanAPersonReactsIsNoAnswer(t *testing.T) {
	a := asked(150)
	if got, _ := a.Label(Value, 1, 1100); got.Request != 0 || got.Tick != NoTick {
		t.Errorf("a press after 100 ns of 150 is %+v, want it unasked", got)
	}
	if !a.Wanted() {
		t.Error("the request was closed by it")
	}
	if got, _ := a.Label(Value, 1, 1150); got.Request != 3 {
		t.Errorf("a press after 150 ns is %+v, want an answer", got)
	}
}

func TestAPressFromBeforeTheRequestExpiredIsAboutItsTickButAnswersNothing(t *testing.T) {
	a := asked(0)
	a.Ask(Request{ID: 3, Tick: 40, State: Expired}, 2000)
	got, ok := a.Label(Value, 1, 1900)
	if !ok || got.Request != 0 || got.Tick != 40 {
		t.Errorf("label %+v, %v; want an unasked label of tick 40", got, ok)
	}
	if got, _ := a.Label(Value, 1, 1950); got.Tick != NoTick {
		t.Errorf("the second press is %+v, want it about no tick", got)
	}
}

func TestAPressAfterTheRequestExpiredIsUnasked(t *testing.T) {
	a := asked(0)
	a.Ask(Request{ID: 3, Tick: 40, State: Expired}, 2000)
	if got, _ := a.Label(Value, 1, 2000); got.Request != 0 || got.Tick != NoTick {
		t.Errorf("label %+v, want it unasked", got)
	}
}

func TestARequestThatWasAnsweredElsewhereIsNoLongerWanted(t *testing.T) {
	a := asked(0)
	a.Ask(Request{ID: 9, State: Answered}, 1200) // another one: no matter
	if !a.Wanted() {
		t.Fatal("closed by the end of another request")
	}
	a.Ask(Request{ID: 3, State: Answered}, 1200)
	if got, _ := a.Label(Value, 1, 1500); a.Wanted() || got.Request != 0 || got.Tick != NoTick {
		t.Errorf("label %+v, want it unasked", got)
	}
}

func TestCantTellClosesARequestAndIsNothingWithoutOne(t *testing.T) {
	a := asked(0)
	if got, ok := a.Label(CantTell, 0, 1500); !ok || got.Request != 3 {
		t.Errorf("label %+v, %v; want it to close request 3", got, ok)
	}
	if got, ok := a.Label(CantTell, 0, 1600); ok {
		t.Errorf("label %+v although nothing was asked", got)
	}
}

func TestAnUndoLeavesTheRequestOpen(t *testing.T) {
	a := asked(0)
	if got, ok := a.Label(Undo, 0, 1500); !ok || got.Kind != Undo || got.Request != 0 {
		t.Errorf("label %+v, %v; want an undo", got, ok)
	}
	if !a.Wanted() {
		t.Error("the undo closed the request")
	}
}
