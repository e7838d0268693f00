package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// parameters are a row's Params, sorted by key.
type parameters []parameter

type parameter struct{ key, value string }

func parseParameters(text string) (parameters, error) {
	if text == "" {
		return nil, nil
	}
	var p parameters
	for field := range strings.SplitSeq(text, ";") {
		key, value, found := strings.Cut(field, "=")
		if !found || key == "" {
			return nil, fmt.Errorf("params %q: found %q: want key=value, separated by semicolons", text, field)
		}
		p = append(p, parameter{key, value})
	}
	slices.SortFunc(p, func(a, b parameter) int { return cmp.Compare(a.key, b.key) })
	for i := 1; i < len(p); i++ {
		if p[i].key == p[i-1].key {
			return nil, fmt.Errorf("params %q: %s stands there twice", text, p[i].key)
		}
	}
	return p, nil
}

// get returns the value of a key, "" if the key is not there.
func (p parameters) get(key string) string {
	for _, each := range p {
		if each.key == key {
			return each.value
		}
	}
	return ""
}

func (p parameters) has(key string) bool {
	return slices.ContainsFunc(p, func(each parameter) bool { return each.key == key })
}

// without returns the parameters less some keys.
func (p parameters) without(keys []string) parameters {
	var rest parameters
	for _, each := range p {
		if !slices.Contains(keys, each.key) {
			rest = append(rest, each)
		}
	}
	return rest
}

// String is the form that the results file has.
func (p parameters) String() string { return p.join("=", ";") }

// label is the form for people: "β = 0.1, ρ = 0.999".
func (p parameters) label() string { return p.join(" = ", ", ") }

func (p parameters) join(equals, between string) string {
	fields := make([]string, len(p))
	for i, each := range p {
		key := each.key
		if equals != "=" {
			key = symbol(key)
		}
		fields[i] = key + equals + each.value
	}
	return strings.Join(fields, between)
}

// symbols are the keys that the paper writes as a letter.
var symbols = map[string]string{
	"beta": "β", "kappa": "κ", "lambda": "λ", "rho": "ρ", "sigma": "σ", "inaccuracy": "α", "nonlinearity": "α",
	"labels_per_minute": "labels a minute", "warm_start": "labels beforehand", "plan_age": "age of z", "replan_every": "steps a z", "gradient_steps": "gradient steps",
}

func symbol(key string) string {
	if s, ok := symbols[key]; ok {
		return s
	}
	return key
}

// weaknesses are the parameters that make labels such as people give them.
var weaknesses = []string{"bias", "delay_s", "levels", "mistakes", "silence"}

// ordinary are the weaknesses of a person who has all of them, as the protocol
// has it.
var ordinary = parameters{{"bias", "0.2"}, {"delay_s", "1"}, {"levels", "5"}, {"mistakes", "0.1"}, {"silence", "0.25"}}

// Who gives the labels, as a field of trials.
const (
	everyStep      = "a label every step"
	exactPerson    = "asked, exact"
	weakPerson     = "asked, with a weakness"
	ordinaryPerson = "asked, with weaknesses"
)

// person says who gives the labels.
func (p parameters) person() string {
	n := 0
	for _, key := range weaknesses {
		if p.has(key) && p.get(key) != "0" {
			n++
		}
	}
	switch {
	case n == 0 && !p.has("labels_per_minute"):
		return everyStep
	case n == 0:
		return exactPerson
	case n == 1:
		return weakPerson
	}
	return ordinaryPerson
}

// doubts says whether labels that contradict the belief count less.
func (p parameters) doubts() bool { return p.has("robust") && p.get("robust") != "0" }

// compareValues orders the values of a parameter: numbers by size and before
// all other text, names of methods as methods are.
func compareValues(a, b string) int {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	switch {
	case errX == nil && errY == nil:
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
	case errX == nil:
		return -1
	case errY == nil:
		return 1
	}
	return compareMethods(a, b)
}
