package setup

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"optibfm/configs"
	"optibfm/hal"
	"optibfm/hal/composite"
	"optibfm/internal/plaintext"
	"optibfm/rtloop"
)

// CheckBounds compares what a robot's calls take at most with what the loop has
// for them, before anything is armed. Ticks that outlast the period are missed,
// which a strict posture does not allow to be possible; a tick that outlasts the
// watchdog's time would be taken for a driver that hangs, so that such a robot is
// refused in any. It prints what it bears as warnings.
func CheckBounds(out io.Writer, robot hal.Robot, file configs.File) error {
	if SimulatedOrShadow(robot, file) {
		return nil
	}
	wrong, fatal := CompareBounds(hal.BoundsOf(robot), sharesOf(robot), file)
	if fatal != nil {
		return fatal
	}
	if file.Loop.Posture == rtloop.Strict {
		return errors.Join(wrong...)
	}
	for _, err := range wrong {
		fmt.Fprint(out, plaintext.Wrap("warning: "+err.Error()))
	}
	return nil
}

// CompareBounds gives what is wrong in a strict posture, and what in any.
func CompareBounds(b hal.Bounds, shares []composite.Share, file configs.File) (wrong []error, fatal error) {
	period, watchdog := file.Loop.Period(), time.Duration(file.Loop.WatchdogMS*float64(time.Millisecond))
	tick := b.Sense + b.Act
	if watchdog > 0 && tick > watchdog {
		return nil, fmt.Errorf("loop.watchdog_ms: found %v, but Sense and Act may take %v together%s: the watchdog would take a bus that does not answer for a driver that hangs: %s, or raise it",
			watchdog, tick, FormatShares(shares, TickBound), TimeoutAdvice)
	}
	if tick > period {
		wrong = append(wrong, fmt.Errorf("loop.period_ms: found %v, but Sense and Act may take %v together%s: where a bus does not answer ticks are missed: %s, or raise loop.period_ms",
			period, tick, FormatShares(shares, TickBound), TimeoutAdvice))
	}
	for _, act := range []struct {
		name string
		of   func(hal.Bounds) time.Duration
	}{
		{"Arm", func(b hal.Bounds) time.Duration { return b.Arm }},
		{"Halt", func(b hal.Bounds) time.Duration { return b.Halt }},
	} {
		if most := act.of(b) + tick; watchdog > 0 && most > watchdog {
			wrong = append(wrong, fmt.Errorf("loop.watchdog_ms: found %v, but a tick with %s may take %v%s: where a bus does not answer the watchdog ends the run: raise it, or %s",
				watchdog, act.name, most, FormatShares(shares, func(b hal.Bounds) time.Duration { return act.of(b) + TickBound(b) }), TimeoutAdvice))
		}
	}
	return wrong, nil
}

// TimeoutAdvice is how every worst case becomes a better one.
const TimeoutAdvice = "shorten the time-outs (timeout_ms of the driver, i2c_timeout_ms)"

func TickBound(b hal.Bounds) time.Duration { return b.Sense + b.Act }

// sharesOf is what of a robot's time is which device's, where it is made of devices.
func sharesOf(robot hal.Robot) []composite.Share {
	r, ok := robot.(interface{ Shares() []composite.Share })
	if !ok {
		return nil
	}
	return r.Shares()
}

// FormatShares says which device takes how much of a time; nothing where none does.
func FormatShares(shares []composite.Share, of func(hal.Bounds) time.Duration) string {
	var words []string
	for _, s := range shares {
		if t := of(s.Bounds); t > 0 {
			words = append(words, fmt.Sprintf("%s %v", s.Name, t))
		}
	}
	if words == nil {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}
