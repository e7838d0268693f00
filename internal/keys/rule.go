package keys

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Rule states the permitted values of a key: choices for a string; choices, a range or both for a
// number.
type Rule struct {
	Choices []string
	Ranged  bool // has a range

	Min, Max float64 // of the range; ±math.MaxFloat64: no bound, but the number is finite
	Above    bool    // Min itself is outside
}

// Chooser is implemented by structs whose string fields have computed choices. Choices returns the
// choices of a key, nil for other keys.
type Chooser interface{ Choices(key string) []string }

// HasMin reports whether the range has a lower bound.
func (r Rule) HasMin() bool { return r.Ranged && r.Min > -math.MaxFloat64 }

// HasMax reports whether the range has an upper bound.
func (r Rule) HasMax() bool { return r.Ranged && r.Max < math.MaxFloat64 }

// Allows reports whether a number is allowed. NaN is not.
func (r Rule) Allows(x float64) bool {
	inside := x >= r.Min && x <= r.Max && (!r.Above || x > r.Min)
	return r.Ranged && inside || slices.Contains(r.Numbers(), x)
}

// Numbers returns the choices as numbers. It panics if a choice is not a number.
func (r Rule) Numbers() []float64 {
	numbers := make([]float64, len(r.Choices))
	for i, choice := range r.Choices {
		numbers[i] = mustNumber(choice)
	}
	return numbers
}

// Named returns the choices without the empty text.
func (r Rule) Named() []string {
	return slices.DeleteFunc(slices.Clone(r.Choices), func(s string) bool { return s == "" })
}

func (r Rule) String() string {
	named := strings.Join(r.Named(), ", ")
	switch {
	case !r.Ranged:
		return "one of " + named
	case r.Choices != nil:
		return named + ", or " + Rule{Ranged: true, Min: r.Min, Max: r.Max, Above: r.Above}.String()
	case r.Min == r.Max:
		return text(r.Min)
	case !r.HasMin():
		return "a finite number"
	case !r.HasMax() && r.Above:
		return "a finite number above " + text(r.Min)
	case !r.HasMax():
		return "a finite number of at least " + text(r.Min)
	case r.Above:
		return "a value above " + text(r.Min) + ", at most " + text(r.Max)
	}
	return "a value from " + text(r.Min) + " to " + text(r.Max)
}

// text writes whole numbers below 1e15 without an exponent.
func text(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// ruleOf returns the rule of a field of a struct.
func ruleOf(owner reflect.Type, f reflect.StructField) (r Rule, ok bool) {
	tag, ok := f.Tag.Lookup("rule")
	element := f.Type
	if element.Kind() == reflect.Slice {
		element = element.Elem()
	}
	if !ok && element.Kind() == reflect.String && owner.Implements(reflect.TypeFor[Chooser]()) {
		choices := reflect.Zero(owner).Interface().(Chooser).Choices(keyOf(f))
		return Rule{Choices: choices}, choices != nil
	}
	if !ok {
		return Rule{}, false
	}
	if tag == "finite" {
		return Rule{Ranged: true, Min: -math.MaxFloat64, Max: math.MaxFloat64}, true
	}
	choices := strings.Split(tag, "|")
	interval := choices[len(choices)-1]
	if interval == "" || interval[0] != '[' && interval[0] != '(' {
		return Rule{Choices: choices}, true
	}
	low, high, isRange := strings.Cut(interval[1:], ", ")
	if end := interval[len(interval)-1]; !isRange || end != ']' && end != ')' {
		panic(fmt.Sprintf("keys: %v.%s: malformed rule (%q); write [a, b], (a, b], finite or a|b", owner, f.Name, tag))
	}
	r = Rule{Ranged: true, Min: mustNumber(low), Max: mustNumber(high[:len(high)-1]), Above: interval[0] == '('}
	if len(choices) > 1 {
		r.Choices = choices[:len(choices)-1]
	}
	return r, true
}

// mustNumber reads a number of a rule. It panics on a mistake: rules are part of the program.
func mustNumber(text string) float64 {
	switch text {
	case "inf":
		return math.MaxFloat64
	case "pi":
		return math.Pi
	case "-pi":
		return -math.Pi
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil {
		return x
	}
	n, err := strconv.ParseInt(text, 0, 64) // such as 0x28
	if err != nil {
		panic(fmt.Sprintf("keys: invalid number in a rule (%q)", text))
	}
	return float64(n)
}
