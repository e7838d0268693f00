package keys

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Check returns an error of a package for each value in a configuration that breaks the rule of its
// key.
func Check(name string, config any) error {
	var errs []error
	Each(reflect.ValueOf(config), func(path string, v reflect.Value, r Rule) {
		if problem := r.Problem(v); problem != "" {
			errs = append(errs, fmt.Errorf("%s: %s%s", name, path, problem))
		}
	})
	return errors.Join(errs...)
}

// Each visits each text and number of a configuration whose key has a rule, with its path. It
// leaves out the sections of drivers that are not chosen and have their defaults.
func Each(config reflect.Value, visit func(path string, v reflect.Value, r Rule)) {
	each(config, "", Field{}, visit)
}

func each(v reflect.Value, path string, of Field, visit func(string, reflect.Value, Rule)) {
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range Fields(v) {
			if f.Unused(v) {
				continue
			}
			each(f.Value, Join(path, f.Key), f, visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			each(v.Index(i), fmt.Sprintf("%s[%d]", path, i), of, visit)
		}
	case reflect.Map:
		for _, name := range slices.SortedFunc(slices.Values(v.MapKeys()), byName) {
			each(v.MapIndex(name), Join(path, name.String()), of, visit)
		}
	default:
		if of.HasRule && v.Kind() != reflect.Bool {
			visit(path, v, of.Rule)
		}
	}
}

func byName(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }

// Join appends a key to the path of its section, "" at the top.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// Problem returns the fault of a text or a number, "" if it has none.
func (r Rule) Problem(v reflect.Value) string {
	if v.Kind() == reflect.String {
		if slices.Contains(r.Choices, v.String()) {
			return ""
		}
		return fmt.Sprintf(" is unknown (%q); choose %v", v.String(), r)
	}
	if !r.Allows(Number(v)) {
		return fmt.Sprintf(" is out of range (%v); choose %v", v.Interface(), r)
	}
	return ""
}

// Number returns a number as a float64.
func Number(v reflect.Value) float64 { return v.Convert(reflect.TypeFor[float64]()).Float() }
