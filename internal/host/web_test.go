package host

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/flightlog"
	"optibfm/internal/fatal"
	"optibfm/internal/recorder"
	"optibfm/posterior"
	"optibfm/rewardsrc/frames"
	"optibfm/rewardsrc/web"
)

func TestWebView_ShowsTheBelief(t *testing.T) {
	const d = 3
	cfg := controller.DefaultConfig()
	cfg.Lambda = 2
	watch, err := newBeliefWatch(cfg, d)
	fatal.If(t, err)
	if got := watch.expects(make([]float64, d)); got == got {
		t.Errorf("expects %g before there is a belief, want NaN", got)
	}
	belief, err := posterior.New(d, 2, 1)
	fatal.If(t, err)
	fatal.If(t, belief.Update([]float64{3, 0, 4}, 0.5, 1))
	state := controller.NewState(controller.Shape{Obs: 1, Action: 1, Latent: d})
	state.At = 1e12
	belief.State(state.Belief)
	watch.take(state)
	// V = 2I + φφᵀ with ‖φ‖ = 5, so ẑ = 0.5 φ / 27.
	if got, want := watch.expects([]float64{3, 0, 4}), 0.5*25/27; got-want > 1e-12 || want-got > 1e-12 {
		t.Errorf("expects %g, want %g", got, want)
	}
	if got, want := watch.newest.Load().norm, 0.5*5/27; got-want > 1e-12 || want-got > 1e-12 {
		t.Errorf("‖ẑ‖ = %g, want %g", got, want)
	}
}

func TestWebView_ShowsKappa(t *testing.T) {
	shape := controller.Shape{Obs: 1, Action: 1, Latent: 3}
	watch, err := newBeliefWatch(controller.DefaultConfig(), shape.Latent)
	fatal.If(t, err)
	tick := controller.NewTick(shape)
	tick.Kappa = 0.7 // gate.kappa is not: κ follows the operator
	v := webView{belief: watch, attend: &attendance{}, tally: recorder.NewStatistics(shape), period: time.Millisecond}
	if got := v.of(tick, 0).Kappa; got != 0.7 {
		t.Errorf("κ %g, want 0.7", got)
	}
	v.silent = true
	if got := v.of(tick, 0).Kappa; got == got {
		t.Errorf("κ %g where nothing is asked, want NaN", got)
	}
}

func TestPerMinute_CountsTheLastSixtySeconds(t *testing.T) {
	var p perMinute
	for second := range uint64(10) {
		p.Add(second)
	}
	if got := p.rate(29); got != 20 {
		t.Errorf("10 labels in 30 s are %v per minute, want 20", got)
	}
	if got := p.rate(65); got != 4 {
		t.Errorf("the last minute has %v labels, want the 4 of seconds 6 to 9", got)
	}
	p.Add(1000)
	if got := p.rate(1000); got != 1 {
		t.Errorf("after a long silence %v, want 1", got)
	}
}

func TestWebMode_FollowsTheLabelMode(t *testing.T) {
	for mode, want := range map[string]web.Mode{
		configs.ModeAny: web.Sparse, configs.ModePerRequest: web.PerRequest,
		configs.ModeEvents: web.Sparse, configs.ModeContinuous: web.Continuous,
	} {
		file, err := configs.Load("rover-keyboard", "operator.source=web", "operator.label_mode="+mode)
		if err != nil {
			t.Fatalf("%s: %v", mode, err)
		}
		if got := webMode(file.Operator.LabelMode); got != want {
			t.Errorf("%s: the console is %s, want %s", mode, got, want)
		}
	}
}

// dark is a source of pictures without any.
type dark struct {
	web.Pictures
	ended bool
}

func (d *dark) Watch() (end func())                                     { return func() { d.ended = true } }
func (d *dark) Next(context.Context, int64) (f frames.Frame, err error) { return f, errors.New("none") }
func (d *dark) Problem() string                                         { return "the lens is covered" }

func TestProcess_ReportsASourceWithoutPicturesAtTheStart(t *testing.T) {
	h := &Process{Planner: &Planner{Events: make(chan flightlog.Event, 1)}}
	from := &dark{}
	h.tryPictures(from)
	e := <-h.Planner.Events
	if e.Level != flightlog.Warn || !strings.Contains(e.Text, "the lens is covered") || !from.ended {
		t.Errorf("event %+v, ended %v", e, from.ended)
	}
}

func TestWebView_CountsTheLabelsInTheBelief(t *testing.T) {
	shape := controller.Shape{Obs: 1, Action: 1, Latent: 3}
	watch, err := newBeliefWatch(controller.DefaultConfig(), shape.Latent)
	fatal.If(t, err)
	v := webView{belief: watch, attend: &attendance{}, tally: recorder.NewStatistics(shape), period: time.Millisecond}
	v.tally.Applied, v.tally.Undone = 3, 1
	tick := controller.NewTick(shape)
	tick.Counted = 12 // 10 of them were in a saved task
	if got := v.of(tick, 0).Labels; got != 12 {
		t.Errorf("%d labels count, want those in the belief", got)
	}
}
