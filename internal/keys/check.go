package keys

import (
	"errors"
	"fmt"
	"reflect"
)

// Check returns an error of a package for each value in a configuration that breaks the rule of its key.
func Check(name string, config any) error {
	return errors.Join(check(name, "", reflect.ValueOf(config))...)
}

func check(name, path string, v reflect.Value) (errs []error) {
	for _, f := range Fields(v) {
		key := path + f.Key
		switch f.Value.Kind() {
		case reflect.Struct:
			errs = append(errs, check(name, key+".", f.Value)...)
		case reflect.Slice:
			for i := range f.Value.Len() {
				at := fmt.Sprintf("%s[%d]", key, i)
				if element := f.Value.Index(i); element.Kind() == reflect.Struct {
					errs = append(errs, check(name, at+".", element)...)
				} else if problem := f.Rule.Problem(element); f.HasRule && problem != "" {
					errs = append(errs, fmt.Errorf("%s: %s%s", name, at, problem))
				}
			}
		default:
			if problem := f.Rule.Problem(f.Value); f.HasRule && problem != "" {
				errs = append(errs, fmt.Errorf("%s: %s%s", name, key, problem))
			}
		}
	}
	return errs
}

// Problem returns what is wrong with a text, a number or a boolean, "" if nothing is.
func (r Rule) Problem(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Bool:
		return ""
	case reflect.String:
		for _, choice := range r.Choices {
			if v.String() == choice {
				return ""
			}
		}
		return fmt.Sprintf(" is unknown (%q); choose %v", v.String(), r)
	}
	if x := Number(v); !r.Allows(x) {
		return fmt.Sprintf(" is out of range (%v); choose %v", v.Interface(), r)
	}
	return ""
}

// Number returns a number as a float64.
func Number(v reflect.Value) float64 { return v.Convert(reflect.TypeFor[float64]()).Float() }
