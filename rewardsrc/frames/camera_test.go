package frames

import (
	"testing"

	"github.com/blackjack/webcam"
)

func TestNearestSize(t *testing.T) {
	discrete := func(w, h uint32) webcam.FrameSize {
		return webcam.FrameSize{MinWidth: w, MaxWidth: w, MinHeight: h, MaxHeight: h}
	}
	stepped := webcam.FrameSize{MinWidth: 48, MaxWidth: 4096, StepWidth: 16, MinHeight: 32, MaxHeight: 200, StepHeight: 8}
	for name, c := range map[string]struct {
		sizes []webcam.FrameSize
		w, h  int
	}{
		"none listed":      {nil, 330, 240},
		"the nearest":      {[]webcam.FrameSize{discrete(640, 480), discrete(320, 180), discrete(160, 120)}, 320, 180},
		"a range of sizes": {[]webcam.FrameSize{stepped}, 320, 200},
	} {
		if w, h := nearestSize(c.sizes, 330, 240); w != c.w || h != c.h {
			t.Errorf("%s: %d x %d", name, w, h)
		}
	}
}
