package configs

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"

	"optibfm/internal/fatal"
	"optibfm/internal/keys"
)

var update = flag.Bool("update", false, "write descriptions.json")

// comments returns the comments of the types of a configuration and of their fields.
func comments(t *testing.T) map[string]string {
	t.Helper()
	types := map[reflect.Type]bool{}
	var walk func(reflect.Value)
	walk = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			types[v.Type()] = true
			for _, f := range keys.Fields(v) {
				if f.Owner != nil {
					types[f.Owner] = true // an embedded struct
				}
				walk(f.Value)
			}
		case reflect.Slice:
			walk(reflect.New(v.Type().Elem()).Elem())
		default:
			types[v.Type()] = true
		}
	}
	walk(reflect.ValueOf(Default()))
	r := jsonschema.Reflector{}
	for typ := range types {
		dir, ok := strings.CutPrefix(typ.PkgPath(), "optibfm/")
		if !ok {
			continue
		}
		fatal.If(t, r.AddGoComments("optibfm/configs", "../"+dir, jsonschema.WithFullComment()))
	}
	used := map[string]string{}
	for name, text := range r.CommentMap {
		for typ := range types {
			if name == typeName(typ) || strings.HasPrefix(name, typeName(typ)+".") {
				used[name] = strings.Join(strings.Fields(text), " ")
			}
		}
	}
	return used
}

func TestSchema_DescriptionsAreUpToDate(t *testing.T) {
	want := comments(t)
	if *update {
		text, err := json.MarshalIndent(want, "", "  ")
		fatal.If(t, err)
		fatal.If(t, os.WriteFile("descriptions.json", append(text, '\n'), 0o644))
		return
	}
	if !maps.Equal(descriptions(), want) {
		t.Error("descriptions.json is out of date: run 'go generate ./configs'")
	}
}
func TestSchema_DescribesEveryKeyAndForbidsOthers(t *testing.T) {
	var check func(map[string]any, string)
	check = func(s map[string]any, path string) {
		if d, _ := s["description"].(string); d == "" && path != "" {
			t.Errorf("%s has no description", path)
		}
		properties, isSection := s["properties"].(map[string]any)
		if isSection && s["additionalProperties"] != false {
			t.Errorf("%s allows other keys", path)
		}
		for key, p := range properties {
			check(p.(map[string]any), keys.Join(path, key))
		}
		if items, ok := s["items"].(map[string]any); ok && items["properties"] != nil {
			check(items, path+"[]")
		}
	}
	var s map[string]any
	fatal.If(t, json.Unmarshal(Schema(), &s))
	check(s, "")
}
