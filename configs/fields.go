package configs

import (
	"reflect"
	"strings"
)

// keyOf is a field's key in a file, "" for one that files do not have.
func keyOf(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	if key == "-" {
		return ""
	}
	return key
}

// keysOf lists the keys of a section in their order.
func keysOf(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		if key := keyOf(t.Field(i)); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// fieldOf finds the field of a key.
func fieldOf(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		if key != "" && keyOf(v.Type().Field(i)) == key {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// lookup finds the value at a path such as controller.gate.kappa. Where there
// is none it returns the innermost section that there is and its path.
func lookup(v reflect.Value, path string) (found reflect.Value, section string, ok bool) {
	for _, key := range strings.Split(path, ".") {
		if v.Kind() != reflect.Struct {
			return v, section, false
		}
		next, ok := fieldOf(v, key)
		if !ok {
			return v, section, false
		}
		v, section = next, join2(section, key)
	}
	return v, section, true
}
