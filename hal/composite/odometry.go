package composite

import "math"

// reckoner integrates the odometry.
type reckoner struct {
	left, right, yawRate, heading line // yawRate and heading: source -1 for none
	track                         float64
	x, y, angle                   float64
	speed, rate                   float64 // at the last step
	at                            int64   // time of the last step; 0: none
}

// odometry resolves the sources of the odometry.
func (w *wirer) odometry() {
	o, r := w.cfg.Odometry, &w.out.reckon
	if o.Left == "" {
		if o != (Odometry{}) {
			w.wrong("odometry.left", "it is empty; set the source of the left wheel's speed, or remove the section")
		}
		return
	}
	*r = reckoner{
		left:    w.measure("odometry.left", o.Left, "m/s", o.Scale),
		right:   w.measure("odometry.right", o.Right, "m/s", o.Scale),
		yawRate: line{source: -1}, heading: line{source: -1},
		track: o.TrackM, x: o.StartXM, y: o.StartYM,
	}
	if o.YawRate != "" {
		r.yawRate = w.measure("odometry.yaw_rate", o.YawRate, "rad/s", 0)
	} else if !(o.TrackM > 0) {
		w.wrong("odometry.track_m", "not positive (%v); set the distance between the wheels, or yaw_rate", o.TrackM)
	}
	if o.Heading != "" {
		r.heading = w.measure("odometry.heading", o.Heading, "rad", 0)
	}
	w.finite("odometry", o.Scale, o.TrackM, o.StartXM, o.StartYM)
}

// measure resolves a source and converts it to an SI unit. A scale is the SI value of 1 in the
// source.
func (w *wirer) measure(key, name, unit string, scale float64) line {
	source, signal, err := w.source(name)
	if err == nil && source >= w.out.odometry && source < w.out.action {
		w.wrong(key, "the odometry cannot be its own source (%s); set a device's input or an action", name)
		return line{}
	}
	gain := scale
	if err == nil && scale == 0 {
		gain, err = conversion(signal.Unit, unit, 0)
	}
	if err != nil {
		w.wrong(key, "%w", err)
	}
	return line{source: source, gain: gain}
}

func (l line) of(sources []float64) float64 { return l.gain*sources[l.source] + l.offset }

// step integrates to the time at, in ns, and sets the signals. It assumes that speeds change
// linearly between two steps.
func (r *reckoner) step(at int64, sources, signals []float64) {
	left, right := r.left.of(sources), r.right.of(sources)
	speed, rate := (left+right)/2, 0.0
	if r.yawRate.source >= 0 {
		rate = r.yawRate.of(sources)
	} else {
		rate = (right - left) / r.track
	}
	was := r.angle
	seconds := 0.0
	if r.at != 0 {
		seconds = float64(at-r.at) / 1e9
	}
	r.angle += (r.rate + rate) / 2 * seconds
	if r.heading.source >= 0 {
		r.angle = r.heading.of(sources)
		if r.at == 0 {
			was = r.angle
		}
	}
	turned := math.Remainder(r.angle-was, 2*math.Pi)
	sin, cos := math.Sincos(was + turned/2) // the chord of the arc
	way := (r.speed + speed) / 2 * seconds
	r.x, r.y = r.x+way*cos, r.y+way*sin
	r.angle = math.Remainder(r.angle, 2*math.Pi)
	r.speed, r.rate, r.at = speed, rate, at
	sin, cos = math.Sincos(r.angle)
	copy(signals, []float64{r.x, r.y, r.angle, cos, sin, speed, rate})
}
