package configs_test

import (
	"errors"
	"strings"
	"testing"

	"optibfm/configs"
)

type shared struct {
	Depth []float64 `yaml:"depth"`
}

type document struct {
	Name  string `yaml:"name"`
	Parts []part `yaml:"parts"`
}

type part struct {
	Kind string `yaml:"kind"`
	shared
}

func TestOtherTypesAreDecodedAsStrictlyAsConfigurations(t *testing.T) {
	d := document{Name: "left as it is"}
	doc, err := configs.Decode("a.yaml", []byte("parts:\n  - {kind: x, depth: [1, 2e3]}\n"), &d)
	if err != nil || d.Name != "left as it is" || len(d.Parts) != 1 || len(d.Parts[0].Depth) != 2 || d.Parts[0].Depth[1] != 2000 {
		t.Fatalf("%+v: %v", d, err)
	}
	if doc.Has("name") || !doc.Has("parts[0].depth") {
		t.Error("it does not know what the text gives")
	}
	for text, want := range map[string]string{
		"parts: [{kind: x, dept: [1]}]":             "did you mean depth?",
		"parts: [{kind: x, kind: y}]":               "given twice",
		"name: 1":                                   "write text",
		"name: \xff":                                "invalid UTF-8",
		"name: " + strings.Repeat("x", 70_000):      "too large",
		"parts: &a [{kind: x}]":                     "an anchor",
		"parts: [{kind: x, shared: {depth: [1]}}]":  "is no key",
		"parts: [{kind: x, depth: [.inf]}]":         "not finite",
		"name: a\n---\nname: b":                     "a second document",
		"parts: [{kind: [x]}]\nname: [y]\nother: 1": "other is no key",
	} {
		var mistake *configs.Error
		if _, err := configs.Decode("a.yaml", []byte(text), &document{}); !errors.As(err, &mistake) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: the error is %v, want something of %q", text, err, want)
		}
	}
}

func TestAMistakeThatIsFoundLaterStandsWhereItsValueDoes(t *testing.T) {
	doc, err := configs.Decode("a.yaml", []byte("name: b\nparts:\n  - kind: x\n    depth: [1, -2]\n"), &document{})
	if err != nil {
		t.Fatal(err)
	}
	for path, line := range map[string]int{"name": 1, "parts[0].depth[1]": 4, "parts[0].missing": 3, "missing": 1} {
		if m := doc.Mistake(path, path+" is wrong: mend it"); m.Line != line || m.Path != path || !strings.Contains(m.Error(), "a.yaml:") {
			t.Errorf("%s: %v, want line %d", path, m, line)
		}
	}
	if configs.Join(nil) != nil {
		t.Error("no mistakes are an error")
	}
	err = configs.Join([]*configs.Error{doc.Mistake("parts[0].kind", "second"), doc.Mistake("name", "first")})
	if err == nil || strings.Index(err.Error(), "first") > strings.Index(err.Error(), "second") {
		t.Errorf("they are not in the order of their places: %v", err)
	}
}
