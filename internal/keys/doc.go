// Package keys reads the keys of a configuration from its struct types. A field has its key in the
// tag yaml and its rule in the tag rule, the one place that states the range or the choices of a
// key:
//
//	RateHz float64 `yaml:"rate_hz" rule:"[0.1, 60]"`
//	Mode   string  `yaml:"mode" rule:"imu|ndof|"`
//
// A rule is one of
//
//	[a, b]   a number from a to b; (a: above a; inf instead of b: no bound; pi is a number too
//	finite   any finite number
//	a|b|     one of the choices, which may be numbers; nothing stands for the empty text
//	a|[b, c] one of the choices, or a number of the range
//
// A struct whose choices are computed has a method Choices. The rule of a list or of a table is
// that of its elements. Loader, JSON Schema, completion and [Check] read the same rules.
package keys
