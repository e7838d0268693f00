package tasks

import (
	"testing"
	"time"

	"optibfm/controller"
)

func TestClock_BeginsAtATickWithoutASample(t *testing.T) {
	const boot = int64(100 * time.Hour)
	tick := controller.NewTick(controller.Shape{Obs: 1, Action: 1, Latent: 1})
	var c clock
	tick.Wake = boot
	if s := c.seconds(tick); s != 0 {
		t.Errorf("first tick: %g s", s)
	}
	tick.SenseAt = boot + int64(2*time.Second)
	if s := c.seconds(tick); s != 2 {
		t.Errorf("first sample: %g s, want 2", s)
	}
}
