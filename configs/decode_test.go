package configs_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"optibfm/configs"
	"optibfm/internal/fatal"
)

type shared struct {
	Depth []float64 `yaml:"depth"`
}

type document struct {
	Name  string `yaml:"name"`
	Parts []part `yaml:"parts"`

	Places map[string]float64 `yaml:"places"`
}

type part struct {
	Kind string `yaml:"kind"`
	shared
}

func TestDecode_ReadsTables(t *testing.T) {
	var d document
	doc, err := configs.Decode("a.yaml", []byte("places:\n  left knee: 0.5\n  elbow: -1\n"), &d)
	if want := map[string]float64{"left knee": 0.5, "elbow": -1}; err != nil || !reflect.DeepEqual(d.Places, want) {
		t.Fatalf("%v: %v", d.Places, err)
	}
	if m := doc.Mistake("places.elbow", "places.elbow is wrong: fix it"); m.Line != 3 {
		t.Errorf("%v", m)
	}
}

func TestDecode_IsStrict(t *testing.T) {
	d := document{Name: "left as it is"}
	doc, err := configs.Decode("a.yaml", []byte("parts:\n  - {kind: x, depth: [1, 2e3]}\n"), &d)
	want := document{Name: "left as it is", Parts: []part{{Kind: "x", shared: shared{Depth: []float64{1, 2000}}}}}
	if err != nil || !reflect.DeepEqual(d, want) {
		t.Fatalf("%+v: %v", d, err)
	}
	if doc.Has("name") || !doc.Has("parts[0].depth") {
		t.Error("Has is wrong")
	}
	for text, want := range map[string]string{
		"parts: [{kind: x, dept: [1]}]":             "did you mean depth?",
		"parts: [{kind: x, kind: y}]":               "given twice",
		"name: 1":                                   "write a string",
		"name: \xff":                                "invalid UTF-8",
		"name: " + strings.Repeat("x", 70_000):      "larger than",
		"places: [1]":                               "write names and numbers",
		"places: {a: 010}":                          "begins with 0",
		"places: {a: -010.5}":                       "begins with 0",
		"places: {a: 01e3}":                         "begins with 0",
		"places: {a: x}":                            "places.a is a string",
		"places: {a: 1, a: 2}":                      "a is given twice",
		`places: {"": 2}`:                           "not a name with a number",
		`places: {"a\nb": 2}`:                       "not a name with a number",
		"places: {1: 2}":                            "not a name with a number",
		"places: {a: }":                             "write a finite number",
		"parts: &a [{kind: x}]":                     "an anchor",
		"parts: [{kind: x, shared: {depth: [1]}}]":  "unknown key",
		"parts: [{kind: x, depth: [.inf]}]":         "write a finite number",
		"name: a\n---\nname: b":                     "a second document",
		"parts: [{kind: [x]}]\nname: [y]\nother: 1": "unknown key other",
	} {
		var mistake *configs.Error
		_, err := configs.Decode("a.yaml", []byte(text), &document{})
		if !errors.As(err, &mistake) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, want %q", text, err, want)
		}
	}
}

func TestDocument_MistakeHasThePlaceOfTheValue(t *testing.T) {
	doc, err := configs.Decode("a.yaml", []byte("name: b\nparts:\n  - kind: x\n    depth: [1, -2]\n"), &document{})
	fatal.If(t, err)
	for path, line := range map[string]int{"name": 1, "parts[0].depth[1]": 4, "parts[0].missing": 3, "missing": 1} {
		m := doc.Mistake(path, path+" is wrong: fix it")
		if m.Line != line || m.Path != path || !strings.Contains(m.Error(), "a.yaml:") {
			t.Errorf("%s: %v, want line %d", path, m, line)
		}
	}
	if configs.Join(nil) != nil {
		t.Error("Join(nil) is not nil")
	}
	err = configs.Join([]*configs.Error{doc.Mistake("parts[0].kind", "second"), doc.Mistake("name", "first")})
	if err == nil || strings.Index(err.Error(), "first") > strings.Index(err.Error(), "second") {
		t.Errorf("not sorted by place: %v", err)
	}
}
