package configs

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
)

var update = flag.Bool("update", false, "write schema.json")

// makeSchema describes File. The comments of the fields are the descriptions.
func makeSchema(t *testing.T) []byte {
	t.Helper()
	r := jsonschema.Reflector{
		FieldNameTag: "yaml", DoNotReference: true, Anonymous: true, RequiredFromJSONSchemaTags: true,
	}
	dirs := []string{
		".", "../controller", "../rtloop", "../hal/rover", "../hal/bridge", "../hal/composite", "../hal/bno055",
		"../hal/mpu6050", "../hal/pca9685", "../hal/serial", "../hal/mcu", "../hal/dynamixel", "../hal/feetech",
		"../hal/mit", "../hal/unitree", "../rewardsrc/scripted", "../rewardsrc/keyboard", "../rewardsrc/panel", "../rewardsrc/evdev",
		"../rewardsrc/gpio", "../rewardsrc/remote", "../rewardsrc/web", "../tflite/tensorflow",
	}
	for _, dir := range dirs {
		if err := r.AddGoComments("optibfm/configs", dir, jsonschema.WithFullComment()); err != nil {
			t.Fatal(err)
		}
	}
	s := r.Reflect(&File{})
	s.Title = "optibfm configuration"
	s.Required = []string{"version"}
	(&refiner{t: t, comments: r.CommentMap}).refine(s, reflect.ValueOf(Default()), "")
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

type refiner struct {
	t        *testing.T
	comments map[string]string
}

// refine adds choices, ranges and defaults, and joins the lines of
// descriptions. A key without a comment has the description of its type or of
// its section.
func (r *refiner) refine(s *jsonschema.Schema, v reflect.Value, path string) {
	r.t.Helper()
	if s.Description == "" {
		s.Description = r.comments[v.Type().PkgPath()+"."+v.Type().Name()]
	}
	s.Description = strings.Join(strings.Fields(s.Description), " ")
	if v.Kind() == reflect.Struct {
		for pair := s.Properties.Oldest(); pair != nil; pair = pair.Next() {
			field, ok := fieldOf(v, pair.Key)
			if !ok {
				r.t.Fatalf("%s.%s: the loader does not have this key of the schema", path, pair.Key)
			}
			if pair.Value.Description == "" && field.Kind() != reflect.Struct {
				pair.Value.Description = s.Description
			}
			r.refine(pair.Value, field, joinPath(path, pair.Key))
		}
		return
	}
	if v.Kind() == reflect.Map {
		return
	}
	if v.Kind() == reflect.Slice {
		r.refine(s.Items, reflect.New(v.Type().Elem()).Elem(), path+"[]")
		return
	}
	if !strings.Contains(path, "[]") {
		s.Default = v.Interface()
	}
	l := limits[path]
	for _, choice := range l.choices {
		s.Enum = append(s.Enum, choice)
	}
	if v.Kind() == reflect.String || v.Kind() == reflect.Bool {
		return
	}
	if l.above {
		s.ExclusiveMinimum = number(l.min)
	} else if l.hasMin() {
		s.Minimum = number(l.min)
	}
	if l.hasMax() {
		s.Maximum = number(l.max)
	}
}

func number(v float64) json.Number { return json.Number(strconv.FormatFloat(v, 'g', -1, 64)) }

func TestSchema_IsUpToDate(t *testing.T) {
	want := makeSchema(t)
	if *update {
		if err := os.WriteFile("schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(Schema(), want) {
		t.Error("schema.json is out of date: run 'go generate ./configs'")
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
			check(p.(map[string]any), joinPath(path, key))
		}
		if items, ok := s["items"].(map[string]any); ok && items["properties"] != nil {
			check(items, path+"[]")
		}
	}
	var s map[string]any
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	check(s, "")
}
