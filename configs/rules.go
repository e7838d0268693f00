package configs

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"optibfm/internal/keys"
)

// checkRules checks a value and all within it against the rules of their keys.
func (c *checker) checkRules(v reflect.Value, path string, rule keys.Rule, ruled bool) {
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range keys.Fields(v) {
			if f.Unused(v) {
				continue
			}
			c.checkRules(f.Value, joinPath(path, f.Key), f.Rule, f.HasRule)
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.checkRules(v.Index(i), fmt.Sprintf("%s[%d]", path, i), rule, ruled)
		}
	case reflect.Map:
		for _, key := range slices.SortedFunc(slices.Values(v.MapKeys()), byName) {
			c.checkRules(v.MapIndex(key), joinPath(path, key.String()), rule, ruled)
		}
	case reflect.Bool:
	case reflect.String:
		if ruled && !slices.Contains(rule.Choices, v.String()) {
			c.add(path, " is unknown (%q); %s", shorten(v.String()), suggest(v.String(), rule.Named()))
		}
	default:
		if ruled && !rule.Allows(keys.Number(v)) {
			c.add(path, " is out of range (%v); choose %v", v.Interface(), rule)
		}
	}
}

func byName(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }
