package haltest

import (
	"reflect"

	"optibfm/hal"
)

// Optional lists the optional interfaces of package hal. A robot that wraps another one, or
// devices, must pass them on.
func Optional() []reflect.Type {
	return []reflect.Type{
		reflect.TypeFor[hal.ArmInput](), reflect.TypeFor[hal.Backstop](), reflect.TypeFor[hal.Bounder](),
		reflect.TypeFor[hal.DeadmanTimer](), reflect.TypeFor[hal.Disarmer](), reflect.TypeFor[hal.FailsafeHolder](),
		reflect.TypeFor[hal.FaultCounter](), reflect.TypeFor[hal.LabelInput](), reflect.TypeFor[hal.Limper](),
		reflect.TypeFor[hal.Meter](), reflect.TypeFor[hal.Relaxer](), reflect.TypeFor[hal.Resetter](),
		reflect.TypeFor[hal.Rewarder](), reflect.TypeFor[hal.SlowResetter](), reflect.TypeFor[hal.StopInput](),
		reflect.TypeFor[hal.Viewer](), reflect.TypeFor[hal.Warner](),
	}
}

// Missing returns the names of the optional interfaces that a wrapper does not implement, in
// alphabetical order. A test of each wrapper compares them with those that it may lack, so that a
// new interface is not forgotten.
func Missing(wrapper any) (names []string) {
	for _, t := range Optional() {
		if !reflect.TypeOf(wrapper).Implements(t) {
			names = append(names, t.Name())
		}
	}
	return names
}
