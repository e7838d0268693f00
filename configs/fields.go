package configs

import (
	"reflect"
	"strconv"
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

// keysOf lists the keys of a section in their order, those of embedded structs
// among them.
func keysOf(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			keys = append(keys, keysOf(f.Type)...)
		} else if key := keyOf(f); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// fieldOf finds the field of a key.
func fieldOf(v reflect.Value, key string) (reflect.Value, bool) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			if found, ok := fieldOf(v.Field(i), key); ok {
				return found, true
			}
		} else if key != "" && keyOf(f) == key {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// lookup finds the value at a path such as controller.gate.kappa or
// robot.composite.action[0].to. Where there is none it returns the innermost
// section that there is and its path.
func lookup(v reflect.Value, path string) (found reflect.Value, section string, ok bool) {
	for _, step := range strings.Split(path, ".") {
		if v.Kind() != reflect.Struct {
			return v, section, false
		}
		key, index, isItem := strings.Cut(step, "[")
		next, ok := fieldOf(v, key)
		if ok && isItem {
			next, ok = itemOf(next, index)
		}
		if !ok {
			return v, section, false
		}
		v, section = next, join2(section, step)
	}
	return v, section, true
}

// itemOf finds an element of a list by what follows its bracket, such as "0]".
func itemOf(list reflect.Value, index string) (reflect.Value, bool) {
	digits, closed := strings.CutSuffix(index, "]")
	i, err := strconv.Atoi(digits)
	if list.Kind() != reflect.Slice || !closed || err != nil || i < 0 || i >= list.Len() {
		return reflect.Value{}, false
	}
	return list.Index(i), true
}

// around is the path of the list or section that a path stands in, "" for the
// outermost.
func around(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}
