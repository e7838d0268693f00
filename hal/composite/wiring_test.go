package composite

import (
	"math"
	"strings"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/internal/fatal"
)

func (b *bench) parts() (parts []Part) {
	for _, d := range b.devices {
		parts = append(parts, Part{Name: d.Name, Inputs: d.Inputs(), Outputs: d.Outputs()})
	}
	return parts
}

func TestConfig_SpecNeedsNoDevices(t *testing.T) {
	b := newBench()
	b.cfg.Action[0].MaxRate = 4
	spec, err := b.cfg.Spec(b.parts())
	fatal.If(t, err)
	if spec.Name != "cart" || spec.Period != 20*time.Millisecond || len(spec.Obs) != 4 || len(spec.Action) != 2 {
		t.Errorf("%+v", spec)
	}
	want := hal.Channel{Name: "left_wheel", Min: -1, Max: 1, MaxRate: 4, Failsafe: -0.5, Disarmed: 0.5}
	if spec.Action[0] != want || spec.Obs[2] != (hal.Channel{Name: "speed", Min: -9, Max: 9}) {
		t.Errorf("%+v, %+v", spec.Action[0], spec.Obs[2])
	}
}

// wiringMistakes are changes to a valid configuration, with a part of their error.
var wiringMistakes = []struct {
	want   string
	change func(*bench)
}{
	{`observation[0].from: not a source ("imu")`, func(b *bench) { b.cfg.Observation[0].From = "imu" }},
	{
		`observation[0].from: no device of this name ("imo")`,
		func(b *bench) { b.cfg.Observation[0].From = "imo.gyro_z" },
	},
	{
		`imu has no input of this name ("giro_z"): it has gyro_z, accel_z`,
		func(b *bench) { b.cfg.Observation[0].From = "imu.giro_z" },
	},
	{`observation[3]: "last_left" has no source`, func(b *bench) { b.cfg.Observation[3].From = "" }},
	{
		`observation[3].from: action has no input of this name`,
		func(b *bench) { b.cfg.Observation[3].From = "action.wheel" },
	},
	{`observation[0].from: no odometry`, func(b *bench) { b.cfg.Observation[0].From = "odometry.x" }},
	{`(rad/s is a turn rate, m is a length)`, func(b *bench) { b.cfg.Observation[0].Unit = "m" }},
	{`(m/s^2 is an acceleration, deg is an angle)`, func(b *bench) { b.cfg.Observation[1].Unit = "deg" }},
	{`the units do not fit (rad/s, furlong)`, func(b *bench) { b.cfg.Observation[0].Unit = "furlong" }},
	{
		`observation[2].from: "speed" from base.left_speed: the units do not fit (m/s, no unit): give a scale`,
		func(b *bench) { b.cfg.Observation[2].Scale = 0 },
	},
	{`observation[2].from: a number is not finite`, func(b *bench) { b.cfg.Observation[2].Offset = math.Inf(1) }},
	{`have the same name ("up")`, func(b *bench) { b.cfg.Observation[0].Name = "up" }},
	{`action[0].to: not an output ("left")`, func(b *bench) { b.cfg.Action[0].To = "left" }},
	{`action[0].to: no device of this name ("bass")`, func(b *bench) { b.cfg.Action[0].To = "bass.left" }},
	{
		`action[0].to: imu has no output of this name ("left"): it has none`,
		func(b *bench) { b.cfg.Action[0].To = "imu.left" },
	},
	{`action[1].to: base.left is driven by "left_wheel" already`, func(b *bench) { b.cfg.Action[1].To = "base.left" }},
	{`action: nothing drives base.right`, func(b *bench) { b.cfg.Action = b.cfg.Action[:1] }},
	{`action[1].to: "right_wheel" to base.right: the units do not fit`, func(b *bench) { b.cfg.Action[1].Scale = 0 }},
	{`action[0].default: not within the limits`, func(b *bench) { b.cfg.Action[0].Default = 2 }},
	{`action[0].failsafe: not within the limits`, func(b *bench) { b.cfg.Action[0].Failsafe = -2 }},
	{`action[0].halt: the driver of base.left cannot hold it`, func(b *bench) { b.cfg.Action[0].Halt = HaltHold }},
	{`action[0].disarmed: not within the limits`, func(b *bench) { b.cfg.Action[0].Disarmed = math.NaN() }},
	{`limits are not finite with min < max`, func(b *bench) { b.cfg.Action[1].Min, b.cfg.Action[1].Max = 0, 0 }},
	{`devices[1].name: not usable ("imu")`, func(b *bench) { b.devices[1].Name = "imu" }},
	{`devices[0].name: not usable ("action")`, func(b *bench) { b.devices[0].Name = "action" }},
	{`devices[0].name: not usable ("a.b")`, func(b *bench) { b.devices[0].Name = "a.b" }},
	{`odometry.left: it is empty`, func(b *bench) { b.cfg.Odometry.Right = "base.left_speed" }},
	{`odometry.right: not a source ("")`, func(b *bench) { b.cfg.Odometry.Left = "base.left_speed" }},
	{
		`odometry.track_m: not positive`,
		func(b *bench) { b.cfg.Odometry = Odometry{Left: "base.left_speed", Right: "base.left_speed"} },
	},
	{
		`odometry.left: the units do not fit`,
		func(b *bench) {
			b.cfg.Odometry = Odometry{Left: "imu.gyro_z", Right: "base.left_speed", TrackM: 1}
		},
	},
	{
		`odometry.heading: the odometry cannot be its own source`,
		func(b *bench) {
			b.cfg.Odometry = Odometry{Left: "base.left_speed", Right: "base.left_speed", TrackM: 1}
			b.cfg.Odometry.Heading = "odometry.heading"
		},
	},
	{`the period is not positive`, func(b *bench) { b.cfg.Period = 0 }},
	{`name of the robot`, func(b *bench) { b.cfg.Name = "" }},
}

func TestConfig_SpecNamesKeyOfEveryMistake(t *testing.T) {
	for _, test := range wiringMistakes {
		b := newBench()
		test.change(b)
		_, err := b.cfg.Spec(b.parts())
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "composite: ") {
			t.Errorf("want %s, found\n%v", test.want, err)
		}
	}
}

func TestConfig_SpecReportsAllMistakes(t *testing.T) {
	b := newBench()
	b.cfg.Observation[0].From, b.cfg.Action[0].To = "a.b", "c.d"
	_, err := b.cfg.Spec(b.parts())
	if err == nil || !strings.Contains(err.Error(), "observation[0]") ||
		!strings.Contains(err.Error(), "action[0]") || strings.Contains(err.Error(), "nothing drives") {
		t.Error(err)
	}
}

func TestConversion_BetweenUnits(t *testing.T) {
	for _, c := range []struct {
		from, to    string
		scale, want float64
	}{
		{"rad", "deg", 0, 180 / math.Pi}, {"deg/s", "rad/s", 0, math.Pi / 180}, {"rpm", "rad/s", 0, 2 * math.Pi / 60},
		{"g", "m/s^2", 0, 9.80665}, {"us", "ms", 0, 1e-3}, {"km/h", "m/s", 2, 2 / 3.6}, {"", "", 0, 1}, {"", "", 3, 3},
		{"m/s", "", 0.5, 0.5}, {"", "us", 500, 500}, {"lux", "lux", 0, 1}, {"m/s²", "m/s^2", 0, 1},
		{"rev", "rad", 0, 2 * math.Pi},
	} {
		got, err := conversion(c.from, c.to, c.scale)
		if err != nil || math.Abs(got-c.want) > 1e-12*c.want {
			t.Errorf("%q to %q, scale %g: %g, want %g: %v", c.from, c.to, c.scale, got, c.want, err)
		}
	}
}

func TestOdometry_FollowsCircle(t *testing.T) {
	const radius, speed, track = 2.0, 0.8, 0.4
	rate := speed / radius
	w := reckoner{
		left: line{source: 0, gain: 1}, right: line{source: 1, gain: 1},
		yawRate: line{source: -1}, heading: line{source: -1}, track: track, x: 1, y: -1,
	}
	sources, out := []float64{speed - rate*track/2, speed + rate*track/2}, make([]float64, len(odometrySignals))
	const ticks = 200
	for i := range ticks + 1 {
		w.step(1+int64(math.Round(2*math.Pi/rate/ticks*1e9*float64(i))), sources, out)
		angle := 2 * math.Pi * float64(i) / ticks
		want := []float64{
			1 + radius*math.Sin(angle), -1 + radius*(1-math.Cos(angle)),
			math.Remainder(angle, 2*math.Pi), math.Cos(angle), math.Sin(angle), speed, rate,
		}
		for j, v := range want {
			tolerance := 0.005 // the chord of an arc of 1.8 degrees
			if j == 2 && math.Abs(math.Abs(v)-math.Pi) < 1e-6 {
				continue // either end of the range
			}
			if math.Abs(out[j]-v) > tolerance {
				t.Fatalf("tick %d: %s is %g, want %g", i, odometrySignals[j].Name, out[j], v)
			}
		}
	}
}

func TestOdometry_UsesHeadingSource(t *testing.T) {
	w := reckoner{
		left: line{source: 0, gain: 1}, right: line{source: 0, gain: 1},
		yawRate: line{source: 1, gain: 1}, heading: line{source: 2, gain: 1},
	}
	out := make([]float64, len(odometrySignals))
	for i := range 11 { // 1 m/s to the north
		w.step(1+int64(i)*1e8, []float64{1, 0.1, math.Pi / 2}, out)
	}
	if math.Abs(out[0]) > 1e-9 || math.Abs(out[1]-1) > 1e-9 || out[6] != 0.1 {
		t.Errorf("%v", out)
	}
}
