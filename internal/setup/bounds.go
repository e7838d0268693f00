package setup

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"optibfm/configs"
	"optibfm/hal"
	"optibfm/internal/plaintext"
	"optibfm/internal/registry"
	"optibfm/rtloop"
)

// CheckBounds compares the longest calls of a robot with the loop, before anything is armed. Calls
// longer than the period miss ticks: an error with posture strict, otherwise a warning on out. A
// tick longer than the watchdog looks like a driver that hangs: always an error.
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

// CompareBounds returns the errors of posture strict, and that of any posture. A shadow run has none.
func CompareBounds(b hal.Bounds, shares []hal.Share, file configs.File) (wrong []error, fatal error) {
	if file.Run.Shadow {
		return nil, nil
	}
	period, watchdog := file.Loop.Period(), time.Duration(file.Loop.WatchdogMS*float64(time.Millisecond))
	tick := b.Sense + b.Act
	if watchdog > 0 && tick > watchdog {
		return nil, fmt.Errorf("loop.watchdog_ms: found %v, but Sense and Act may take %v together%s: "+
			"a silent bus would look like a driver that hangs; %s, or raise loop.watchdog_ms",
			watchdog, tick, FormatShares(shares, TickBound), TimeoutAdvice)
	}
	if tick > period {
		wrong = append(wrong, fmt.Errorf("loop.period_ms: found %v, but Sense and Act may take %v together%s: "+
			"a silent bus causes missed ticks; %s, or raise loop.period_ms",
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
			total := func(b hal.Bounds) time.Duration { return act.of(b) + TickBound(b) }
			wrong = append(wrong, fmt.Errorf("loop.watchdog_ms: found %v, but a tick with %s may take %v%s: "+
				"on a silent bus the watchdog ends the run; raise loop.watchdog_ms, or %s",
				watchdog, act.name, most, FormatShares(shares, total), TimeoutAdvice))
		}
	}
	return wrong, nil
}

// BoundsOfFile returns the bounds of a robot, as far as they are known before it is opened, and its
// devices' shares of them.
func BoundsOfFile(file configs.File) (b hal.Bounds, shares []hal.Share) {
	p, ok := file.Robot.Chosen().(registry.Parted)
	if !ok {
		return b, nil
	}
	shares = p.Shares()
	for _, s := range shares {
		b = b.Plus(s.Bounds)
	}
	return b, shares
}

// TimeoutAdvice is the fix for calls that may take too long.
const TimeoutAdvice = "shorten the time-outs (timeout_ms of the driver, i2c_timeout_ms)"

// TickBound returns the longest time of a tick's calls.
func TickBound(b hal.Bounds) time.Duration { return b.Sense + b.Act }

// sharesOf returns the bounds of each device of a composite robot, nil for others.
func sharesOf(robot hal.Robot) []hal.Share {
	r, ok := robot.(interface{ Shares() []hal.Share })
	if !ok {
		return nil
	}
	return r.Shares()
}

// FormatShares lists the time of each device, such as " (imu 10ms)"; empty if no device takes any.
func FormatShares(shares []hal.Share, of func(hal.Bounds) time.Duration) string {
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
