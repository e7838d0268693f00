package record

import (
	"time"

	"optibfm/controller"
	"optibfm/flightlog"
)

// Offer sends without waiting.
func Offer[T any](c chan T, v T) {
	select {
	case c <- v:
	default:
	}
}

// Logged is a plan as the log keeps it.
func Logged(p *controller.Plan, at int64, strategy string) flightlog.Plan {
	return flightlog.Plan{
		Tick: p.Tick, At: at, Took: time.Duration(p.ElapsedNS), Score: p.Score, Strategy: strategy, Z: p.Z,
	}
}
