// Package devicetest tests what every [hal.Device] must do, on the fake of its device.
package devicetest

import (
	"math"
	"slices"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/hal/monotonic"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// Time limits of answers, in ms: one that also a busy computer meets, and one for tests of silent
// devices.
const (
	Patient = 1000
	Brief   = 20
)

// Rig is an opened driver and the fake of its device, which is not armed.
type Rig struct {
	hal.Device
	// Goals are outputs that move the device, Stop those that stop it; nil for a sensor.
	Goals, Stop []float64
	// Moves reports whether the device executes Goals.
	Moves func() bool
	// Again opens another driver for the same device.
	Again func() (hal.Device, error)
	// Unplug closes the device's end of its port or interface; nil: it has none.
	Unplug func()
	// Faults are the faults that the fake can have before Arm.
	Faults []Fault
}

// Fault is a fault of a device or its bus.
type Fault struct {
	Name  string
	Break func()
	// Read, Write, Halt and Arm are the kinds of the errors of these methods; nil: none.
	Read, Write, Halt, Arm error
}

// Run runs the suite. start begins with a new device, and limits the time of its answers.
func Run(t *testing.T, start func(t *testing.T, timeoutMs float64) Rig) {
	for name, test := range map[string]func(*testing.T, Rig){
		"Signals_AreNamedAndMeasuredByInputs":    signals,
		"Read_IsFiniteAndTimesNeverDecrease":     reads,
		"Write_RefusesValuesThatAreNotFinite":    refuses,
		"Write_MovesOnlyWhileArmed":              moves,
		"Tick_AllocatesNothing":                  allocates,
		"Close_LeavesTheDeviceForAnotherProgram": closes,
		"Unplugged_IsBusError":                   unplugged,
	} {
		t.Run(name, func(t *testing.T) { test(t, start(t, Patient)) })
	}
	for i, f := range start(t, Brief).Faults {
		t.Run("Fault_"+f.Name, func(t *testing.T) {
			r := start(t, Brief)
			fails(t, r, r.Faults[i])
		})
	}
}

// Refuses checks that configurations are refused with an error that has the text of their key in
// the map.
func Refuses[C interface{ Validate() error }](t *testing.T, open func(C) error, cases map[string]C) {
	t.Helper()
	for text, c := range cases {
		for _, err := range []error{c.Validate(), open(c)} {
			errtest.Contains(t, err, text, text)
		}
	}
}

// read reads a device with inputs: others are not read.
func (r Rig) read(sample []float64) (at int64, err error) {
	if len(sample) == 0 {
		return 0, nil
	}
	return r.Read(sample)
}

func (r Rig) sample() []float64 { return make([]float64, len(r.Inputs())) }

func (r Rig) relax() error {
	if d, ok := r.Device.(hal.Relaxer); ok {
		return d.Relax()
	}
	return nil
}

func signals(t *testing.T, r Rig) {
	for _, list := range [][]hal.Signal{r.Inputs(), r.Outputs()} {
		names := map[string]bool{}
		for _, s := range list {
			if s.Name == "" || names[s.Name] {
				t.Errorf("the name %q is empty or a duplicate", s.Name)
			}
			names[s.Name] = true
		}
	}
	for _, o := range r.Outputs() {
		if o.Measured != "" && !slices.ContainsFunc(r.Inputs(), func(i hal.Signal) bool {
			return i.Name == o.Measured && i.Unit == o.Unit
		}) {
			t.Errorf("no input measures %+v", o)
		}
	}
}

func reads(t *testing.T, r Rig) {
	sample, before := r.sample(), int64(0)
	for range 20 {
		at, err := r.read(sample)
		fatal.If(t, err)
		if at < before || at > monotonic.Now() {
			t.Errorf("a sample of %d after one of %d", at, before)
		}
		before = at
		for i, v := range sample {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s is %v", r.Inputs()[i].Name, v)
			}
		}
	}
}

func refuses(t *testing.T, r Rig) {
	fatal.If(t, r.Arm(), r.Write(r.Goals))
	for i, o := range r.Outputs() {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			wrong := slices.Clone(r.Goals)
			wrong[i] = v
			errtest.NotNil(t, r.Write(wrong), "Write accepted ", v, " for ", o.Name)
		}
	}
	r.want(t, "after refused values", true)
	for i, o := range r.Outputs() {
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			wrong := slices.Clone(r.Stop)
			wrong[i] = v
			if err := r.Halt(wrong); err == nil && !(math.IsNaN(v) && o.Holds) {
				t.Errorf("Halt accepted %v for %s", v, o.Name)
			}
		}
	}
}

// want waits until the device has executed all commands.
func (r Rig) want(t *testing.T, when string, moves bool) {
	t.Helper()
	fatal.If(t, errtest.Of(r.read(r.sample())))
	if r.Moves == nil {
		return
	}
	for end := time.Now().Add(30 * time.Second); r.Moves() != moves && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if r.Moves() != moves {
		t.Errorf("%s: moves %v", when, !moves)
	}
}

func moves(t *testing.T, r Rig) {
	fatal.If(t, r.Write(r.Goals))
	r.want(t, "before Arm", false)
	fatal.If(t, r.Halt(r.Stop))
	for range 2 {
		fatal.If(t, r.Arm(), r.Write(r.Goals))
		r.want(t, "armed", true)
		fatal.If(t, r.Halt(r.Stop), r.Halt(r.Stop))
		r.want(t, "halted", false)
		fatal.If(t, r.Write(r.Goals))
		r.want(t, "after Halt", false)
	}
	fatal.If(t, r.Arm(), r.Write(r.Goals), r.relax(), r.Halt(r.Stop), r.Write(r.Goals))
	r.want(t, "limp", false)
}

func allocates(t *testing.T, r Rig) {
	sample := r.sample()
	fatal.If(t, r.Arm())
	if n := testing.AllocsPerRun(50, func() {
		fatal.If(t, errtest.Of(r.read(sample)), r.Write(r.Goals))
	}); n != 0 {
		t.Errorf("%v allocations in Read and Write", n)
	}
	if n := testing.AllocsPerRun(20, func() { fatal.If(t, r.Halt(r.Stop), r.relax()) }); n != 0 {
		t.Errorf("%v allocations in Halt", n)
	}
}

func closes(t *testing.T, r Rig) {
	fatal.If(t, r.Arm(), r.Close())
	again, err := r.Again()
	fatal.If(t, err)
	fatal.If(t, again.Arm(), again.Halt(r.Stop), again.Close())
}

func unplugged(t *testing.T, r Rig) {
	if r.Unplug == nil {
		t.Skip("it has no port")
	}
	fatal.If(t, r.Arm())
	before := r.counted()
	r.Unplug()
	_, err := r.read(r.sample())
	wants(t, "Read", err, hal.ErrBus)
	wants(t, "Write", r.Write(r.Goals), hal.ErrBus)
	wants(t, "Halt", r.Halt(r.Stop), hal.ErrBus)
	wants(t, "Arm", r.Arm(), hal.ErrBus)
	if _, err := r.Again(); err == nil || r.counted().Bus <= before.Bus {
		t.Errorf("opened again: %v; counted %+v", err, r.counted())
	}
}

func fails(t *testing.T, r Rig, f Fault) {
	sample, before := r.sample(), r.counted()
	f.Break()
	tick := func() {
		_, err := r.read(sample)
		wants(t, "Read", err, f.Read)
		wants(t, "Write", r.Write(r.Goals), f.Write)
		wants(t, "Halt", r.Halt(r.Stop), f.Halt)
		_ = r.relax()
	}
	if n := testing.AllocsPerRun(2, tick); n != 0 {
		t.Errorf("%v allocations", n)
	}
	wants(t, "Arm", r.Arm(), f.Arm)
	if _, err := r.Again(); err == nil && f.Arm != nil {
		t.Error("opened in spite of the fault")
	}
	if r.counted() == before {
		t.Error("no fault was counted")
	}
	if g, ok := r.Device.(hal.DeadmanTimer); ok && f.Arm != nil && g.Deadman() != 0 {
		t.Errorf("not armed, but a deadman of %v", g.Deadman())
	}
}

func (r Rig) counted() hal.Faults { return r.Device.(hal.FaultCounter).Faults() }

func wants(t *testing.T, method string, err, kind error) { errtest.Is(t, err, kind, method) }
