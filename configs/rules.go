package configs

import (
	"reflect"
	"slices"

	"optibfm/internal/keys"
)

// checkRules checks every value against the rule of its key.
func (c *checker) checkRules() {
	keys.Each(c.file, func(path string, v reflect.Value, r keys.Rule) {
		if v.Kind() != reflect.String {
			if problem := r.Problem(v); problem != "" {
				c.add(path, "%s", problem)
			}
		} else if !slices.Contains(r.Choices, v.String()) {
			c.add(path, " is unknown (%q); %s", shorten(v.String()), suggest(v.String(), r.Named()))
		}
	})
}
