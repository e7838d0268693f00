package composite

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"optibfm/hal"
)

// The sources that are not devices.
const (
	actionSource   = "action"
	odometrySource = "odometry"
)

var odometrySignals = []hal.Signal{
	{Name: "x", Unit: "m"}, {Name: "y", Unit: "m"},
	{Name: "heading", Unit: "rad"}, {Name: "heading_cos"}, {Name: "heading_sin"},
	{Name: "speed", Unit: "m/s"}, {Name: "yaw_rate", Unit: "rad/s"},
}

// wiring is a configuration with resolved names. One list has all sources: the devices' inputs, the
// signals of the odometry, the actions.
type wiring struct {
	spec     hal.Spec
	senses   []line // one for each element of a tick's observation
	acts     []drive
	first    []int // index of each device's first input in the list of sources
	odometry int   // index of its first signal, -1 for none
	stop     int   // index of the stop input, -1 for none
	action   int   // index of the first action
	sources  int
	reckon   reckoner
}

// line converts a source: gain * source + offset.
type line struct {
	source       int
	gain, offset float64
}

// drive converts an action to a device's output.
type drive struct {
	device, output     int
	gain, offset       float64
	low, high, step    float64 // step: the largest change in a period
	failsafe, disarmed float64
	holds              bool   // Halt commands hal.Hold in place of failsafe
	measured           line   // where the actuator is, in the action's unit
	sensor             string // the name of its source; empty: nothing measures it
}

// Spec checks a configuration against the parts of a robot and describes the robot. It opens
// nothing. The error names every invalid key.
func (c Config) Spec(parts []Part) (hal.Spec, error) {
	w, err := c.wire(parts)
	if err != nil {
		return hal.Spec{}, err
	}
	return w.spec, nil
}

// Failsafe returns the outputs that Halt commands, for each part in its order. It serves to halt a
// device without the others.
func (c Config) Failsafe(parts []Part) ([][]float64, error) {
	w, err := c.wire(parts)
	if err != nil {
		return nil, err
	}
	outputs := make([][]float64, len(parts))
	for i, p := range parts {
		outputs[i] = make([]float64, len(p.Outputs))
	}
	for _, a := range w.acts {
		outputs[a.device][a.output] = a.haltOutput()
	}
	return outputs, nil
}

// haltOutput is the output that Halt commands.
func (d *drive) haltOutput() float64 {
	if d.holds {
		return hal.Hold()
	}
	return d.gain*d.failsafe + d.offset
}

// wirer resolves names and collects errors.
type wirer struct {
	cfg   Config
	parts []Part
	out   wiring
	errs  []error
}

func (c Config) wire(parts []Part) (*wiring, error) {
	w := &wirer{cfg: c, parts: parts}
	w.indexSources()
	w.stopInput()
	w.observations()
	w.actions()
	if len(w.errs) > 0 {
		return nil, errors.Join(w.errs...)
	}
	if err := w.out.spec.Validate(); err != nil {
		return nil, fmt.Errorf("composite: %w", err)
	}
	return &w.out, nil
}

func (w *wirer) wrong(key, format string, args ...any) {
	w.errs = append(w.errs, fmt.Errorf("composite: %s: "+format, append([]any{key}, args...)...))
}

// indexSources assigns the indices of the sources.
func (w *wirer) indexSources() {
	names := map[string]bool{actionSource: true, odometrySource: true}
	for i, p := range w.parts {
		if p.Name == "" || strings.Contains(p.Name, ".") || names[p.Name] {
			w.wrong(fmt.Sprintf("devices[%d].name", i), "not usable (%q); set a unique name without a dot, "+
				"except %s and %s", p.Name, actionSource, odometrySource)
		}
		names[p.Name] = true
		w.out.first = append(w.out.first, w.out.sources)
		w.out.sources += len(p.Inputs)
	}
	w.out.odometry = -1
	if w.cfg.Odometry.Left != "" {
		w.out.odometry = w.out.sources
		w.out.sources += len(odometrySignals)
	}
	w.out.action = w.out.sources
	w.out.sources += len(w.cfg.Action)
	w.odometry()
}

// stopInput resolves the input of the emergency stop, which must be a device's.
func (w *wirer) stopInput() {
	w.out.stop = -1
	if w.cfg.StopInput == "" {
		return
	}
	index, signal, err := w.source(w.cfg.StopInput)
	inputs := w.out.sources - len(w.cfg.Action)
	if w.out.odometry >= 0 {
		inputs = w.out.odometry
	}
	switch {
	case err != nil:
		w.wrong("stop_input", "%w", err)
	case index >= inputs || signal.Unit != "":
		w.wrong("stop_input", "not a switch (%q, unit %q); set a device's input without a unit",
			w.cfg.StopInput, signal.Unit)
	default:
		w.out.stop = index
	}
}

// source finds a source by its name.
func (w *wirer) source(name string) (index int, signal hal.Signal, err error) {
	of, which, ok := strings.Cut(name, ".")
	if !ok {
		return 0, signal, fmt.Errorf("not a source (%q); write DEVICE.INPUT, such as imu.gyro_z", name)
	}
	signals, first, err := w.signals(of)
	if err != nil {
		return 0, signal, err
	}
	for i, s := range signals {
		if s.Name == which {
			return first + i, s, nil
		}
	}
	return 0, signal, fmt.Errorf("%s has no input of this name (%q): it has %s", of, which, names(signals))
}

// signals returns the sources of a device, of the odometry or of the actions.
func (w *wirer) signals(of string) (signals []hal.Signal, first int, err error) {
	switch {
	case of == actionSource:
		for _, a := range w.cfg.Action {
			signals = append(signals, hal.Signal{Name: a.Name, Unit: a.Unit})
		}
		return signals, w.out.action, nil
	case of == odometrySource && w.out.odometry >= 0:
		return odometrySignals, w.out.odometry, nil
	case of == odometrySource:
		return nil, 0, errors.New("no odometry; set odometry.left and odometry.right")
	}
	for i, p := range w.parts {
		if p.Name == of {
			return p.Inputs, w.out.first[i], nil
		}
	}
	return nil, 0, fmt.Errorf("no device of this name (%q)", of)
}

func names(signals []hal.Signal) string {
	if len(signals) == 0 {
		return "none"
	}
	list := make([]string, len(signals))
	for i, s := range signals {
		list[i] = s.Name
	}
	return strings.Join(list, ", ")
}

func (w *wirer) observations() {
	for i, o := range w.cfg.Observation {
		w.out.senses = append(w.out.senses, w.observation(fmt.Sprintf("observation[%d]", i), o))
	}
	w.out.spec = hal.Spec{Name: w.cfg.Name, Period: w.cfg.Period}
	for _, o := range w.cfg.Observation {
		w.out.spec.Obs = append(w.out.spec.Obs, hal.Channel{Name: o.Name, Unit: o.Unit, Min: o.Min, Max: o.Max})
	}
}

func (w *wirer) observation(key string, o Observation) line {
	if o.From == "" {
		w.wrong(key, "%q has no source; set from", o.Name)
		return line{}
	}
	key += ".from"
	source, signal, err := w.source(o.From)
	if err != nil {
		w.wrong(key, "%w", err)
		return line{}
	}
	gain, err := conversion(signal.Unit, o.Unit, o.Scale)
	if err != nil {
		w.wrong(key, "%q from %s: %w", o.Name, o.From, err)
	}
	if o.Invert {
		gain = -gain
	}
	w.finite(key, gain, o.Offset)
	return line{source: source, gain: gain, offset: o.Offset}
}

func (w *wirer) finite(key string, numbers ...float64) {
	for _, v := range numbers {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			w.wrong(key, "a number is not finite (%v)", v)
			return
		}
	}
}

func (w *wirer) actions() {
	driven := make([]map[string]string, len(w.parts)) // output to action
	for i := range driven {
		driven[i] = map[string]string{}
	}
	for i, a := range w.cfg.Action {
		drive := w.act(fmt.Sprintf("action[%d]", i), a, driven)
		w.out.acts = append(w.out.acts, drive)
		w.out.spec.Action = append(w.out.spec.Action, hal.Channel{
			Name: a.Name, Unit: a.Unit, Min: a.Min, Max: a.Max, MaxRate: a.MaxRate,
			Failsafe: drive.failsafe, Disarmed: a.Disarmed, Measured: hal.Measured{Obs: drive.sensor},
		})
	}
	if len(w.errs) > 0 {
		return // a wrong name would be reported twice
	}
	for i, p := range w.parts {
		for _, s := range p.Outputs {
			if driven[i][s.Name] == "" {
				w.wrong("action", "nothing drives %s.%s; add an action, or remove the output", p.Name, s.Name)
			}
		}
	}
}

func (w *wirer) act(key string, a Action, driven []map[string]string) drive {
	device, output, signal, err := w.output(a.To)
	if err != nil {
		w.wrong(key+".to", "%w", err)
		return drive{}
	}
	if other, taken := driven[device][signal.Name]; taken {
		w.wrong(key+".to", "%s is driven by %q already", a.To, other)
	}
	driven[device][signal.Name] = a.Name
	gain, err := conversion(a.Unit, signal.Unit, a.Scale)
	if err != nil {
		w.wrong(key+".to", "%q to %s: %w", a.Name, a.To, err)
	}
	if a.Invert {
		gain = -gain
	}
	w.finite(key, gain, a.Offset)
	for _, v := range []struct {
		key   string
		value float64
	}{{"default", a.Default}, {"failsafe", a.Failsafe}, {"disarmed", a.Disarmed}} {
		if !(v.value >= a.Min && v.value <= a.Max) {
			w.wrong(key+"."+v.key, "not within the limits of %q (%v, limits %v to %v)", a.Name, v.value, a.Min, a.Max)
		}
	}
	d := drive{
		device: device, output: output, gain: gain, offset: a.Offset,
		low: a.Min, high: a.Max, step: w.step(a),
		failsafe: a.Failsafe, disarmed: a.Disarmed,
	}
	if err := w.measurePosition(&d, a, signal); err != nil {
		w.wrong(key+".measured", "%w", err)
	}
	if err := d.resolveHalt(a, signal); err != nil {
		w.wrong(key+".halt", "%w", err)
	}
	return d
}

// resolveHalt decides what Halt commands. The failsafe value of a held action is its default: a
// typical position.
func (d *drive) resolveHalt(a Action, output hal.Signal) error {
	switch {
	case a.Halt == HaltFailsafe:
		return nil
	case a.Halt != "" && a.Halt != HaltHold:
		return fmt.Errorf("unknown (%q); set %s or %s", a.Halt, HaltHold, HaltFailsafe)
	case !output.Holds && a.Halt == HaltHold:
		return fmt.Errorf("the driver of %s cannot hold it; set %s", a.To, HaltFailsafe)
	case output.Holds && a.Failsafe != 0:
		return fmt.Errorf("a stop holds %q where it is, so its failsafe (%g) has no effect; "+
			"remove failsafe, or set halt: %s", a.Name, a.Failsafe, HaltFailsafe)
	case output.Holds:
		d.holds, d.failsafe = true, a.Default
	}
	return nil
}

// measurePosition resolves what measures an action: the configured source, or the input that the
// driver names.
func (w *wirer) measurePosition(d *drive, a Action, output hal.Signal) error {
	switch {
	case a.Measured != "":
		source, signal, err := w.source(a.Measured)
		if err != nil {
			return err
		}
		if source >= w.out.action {
			return fmt.Errorf("a command measures nothing (%q); set a device's input", a.Measured)
		}
		gain, err := conversion(signal.Unit, a.Unit, a.MeasuredScale)
		w.finite(a.Name, gain, a.MeasuredOffset)
		d.sensor, d.measured = a.Measured, line{source, gain, a.MeasuredOffset}
		return err
	case a.MeasuredScale != 0 || a.MeasuredOffset != 0:
		return errors.New("found a scale or an offset without a source; set measured")
	case output.Measured == "" || d.gain == 0:
		return nil
	}
	name := w.parts[d.device].Name + "." + output.Measured
	source, _, err := w.source(name)
	d.sensor, d.measured = name, line{source, 1 / d.gain, -d.offset / d.gain}
	return err
}

// step returns the largest change of an action in a period.
func (w *wirer) step(a Action) float64 {
	if a.MaxRate == 0 {
		return math.Inf(1)
	}
	return a.MaxRate * w.cfg.Period.Seconds()
}

// output finds a device's output by its name.
func (w *wirer) output(name string) (device, output int, signal hal.Signal, err error) {
	of, which, ok := strings.Cut(name, ".")
	if !ok {
		return 0, 0, signal, fmt.Errorf("not an output (%q); write DEVICE.OUTPUT, such as base.left", name)
	}
	for i, p := range w.parts {
		if p.Name != of {
			continue
		}
		for j, s := range p.Outputs {
			if s.Name == which {
				return i, j, s, nil
			}
		}
		return 0, 0, signal, fmt.Errorf("%s has no output of this name (%q): it has %s", of, which, names(p.Outputs))
	}
	return 0, 0, signal, fmt.Errorf("no device of this name (%q)", of)
}
