package configs

import (
	"reflect"
	"strconv"
	"strings"

	"optibfm/internal/decimal"
	"optibfm/internal/keys"
)

// lookup finds the value at a path such as controller.gate.kappa or
// robot.composite.action[0].to. Without one it returns the innermost section
// that exists, and its path.
func lookup(v reflect.Value, path string) (found reflect.Value, section string, ok bool) {
	for step := range strings.SplitSeq(path, ".") {
		if v.Kind() != reflect.Struct {
			return v, section, false
		}
		key, index, isElement := strings.Cut(step, "[")
		f, ok := keys.Find(v, key)
		next := f.Value
		if ok && isElement {
			next, ok = elementOf(next, index)
		}
		if !ok {
			return v, section, false
		}
		v, section = next, keys.Join(section, step)
	}
	return v, section, true
}

// elementOf finds an element of a list by the text after its bracket, such as "0]".
func elementOf(list reflect.Value, index string) (reflect.Value, bool) {
	digits, closed := strings.CutSuffix(index, "]")
	i, err := strconv.Atoi(digits)
	if list.Kind() != reflect.Slice || !closed || err != nil || decimal.Check(digits) != nil || i < 0 || i >= list.Len() {
		return reflect.Value{}, false
	}
	return list.Index(i), true
}

// parent returns the path of the list or section around a path, "" for the outermost.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// overlap reports whether one path is, or is within, the other.
func overlap(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return strings.HasPrefix(b, a) && (len(a) == len(b) || strings.IndexByte(".[", b[len(a)]) >= 0)
}
