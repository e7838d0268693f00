package dds

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func TestClient_ReleasesTheControllerOfTheRobot(t *testing.T) {
	p, err := library(t).Join(domain+2, Loopback)
	fatal.If(t, err)
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var released, nameless atomic.Bool
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, p, MotionSwitcher, func(api int64, parameter string) (int, string) {
			switch {
			case parameter != "{}":
				return 3204, ""
			case api == CheckMode && nameless.Load():
				return 0, "{}"
			case api == CheckMode && released.Load():
				return 0, `{"form":"0","name":""}`
			case api == CheckMode:
				return 0, `{"form":"0","name":"ai"}`
			case api == ReleaseMode:
				released.Store(true)
				return 0, ""
			}
			return 3203, ""
		})
	}()
	c, err := NewClient(p, MotionSwitcher)
	fatal.If(t, err)
	if name, err := c.Controller(ctx); name != "ai" || err != nil {
		t.Errorf("controller %q, %v", name, err)
	}
	if err := c.Release(ctx); err != nil || !released.Load() {
		t.Errorf("%v, released %v", err, released.Load())
	}
	nameless.Store(true)
	if name, err := c.Controller(ctx); err == nil {
		t.Errorf("an answer without a name: %q", name)
	}
	if code, _, err := c.Call(ctx, 7, "{}"); code != 3203 || err != nil {
		t.Errorf("an unknown function: code %d, %v", code, err)
	}
	other, err := NewClient(p, "nothing")
	fatal.If(t, err)
	short, end := context.WithTimeout(ctx, 50*time.Millisecond)
	defer end()
	errtest.Contains(t, errtest.Of(other.Controller(short)), "not found", "a missing service")
	cancel()
	errtest.Nil(t, <-ended)
}

// TestClient_WaitsForASlowOrBusyService has a service that answers after the request was repeated,
// and is busy while it releases the controller.
func TestClient_WaitsForASlowOrBusyService(t *testing.T) {
	p, err := library(t).Join(domain+7, Loopback)
	fatal.If(t, err)
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var releases, checks atomic.Int64
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, p, MotionSwitcher, func(api int64, _ string) (int, string) {
			switch {
			case api == ReleaseMode:
				releases.Add(1)
				time.Sleep(repeatAfter + 10*callEvery)
				return 0, ""
			case releases.Load() == 0:
				return 0, `{"form":"0","name":"ai"}`
			case checks.Add(1) < 3:
				return busy, ""
			}
			return 0, `{"form":"0","name":""}`
		})
	}()
	c, err := NewClient(p, MotionSwitcher)
	fatal.If(t, err)
	if err := c.Release(ctx); err != nil || checks.Load() < 3 {
		t.Errorf("%v after %d looks", err, checks.Load())
	}
	cancel()
	errtest.Nil(t, <-ended)
}
