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
			c.add(path, " is unknown (%q); %s", shorten(v.String()), choose(v.String(), r.Named()))
		}
	})
}

// choose proposes a choice. Drivers are the only choices that a program may lack.
func choose(found string, choices []string) string {
	if len(choices) == 0 {
		return `this program registers none: import _ "optibfm/standard", or call the driver's Register`
	}
	return suggest(found, choices)
}
