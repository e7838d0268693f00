package configs

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"optibfm/internal/keys"
)

// TestSchema_DescriptionsAreUpToDate writes the comments of the configuration types: a program does
// not have its own comments.
//
//go:generate go test . -run TestSchema_DescriptionsAreUpToDate -update
//go:embed descriptions.json
var descriptionsJSON []byte

// descriptions are the comments of types and fields, such as "optibfm/configs.Log.Dir".
var descriptions = sync.OnceValue(func() (texts map[string]string) {
	if err := json.Unmarshal(descriptionsJSON, &texts); err != nil {
		panic(err) // the file is in the program
	}
	return texts
})

// Schema returns the JSON Schema (draft 2020-12) of a configuration of this program. Editors
// complete and check keys with it.
func Schema() []byte {
	s := object{{"$schema", "https://json-schema.org/draft/2020-12/schema"}}
	s = append(s, schemaOf(reflect.ValueOf(Default()), keys.Field{}, "", "")...)
	last := s[len(s)-1] // the description
	s = append(s[:len(s)-1], member{"required", []string{"version"}}, member{"title", "optibfm configuration"}, last)
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err) // texts and numbers
	}
	return append(text, '\n')
}

// schemaOf returns the schema of a value with the rule of its field. A key without a comment has
// the description of its type or of its section.
func schemaOf(v reflect.Value, f keys.Field, path, section string) object {
	description := f.Doc
	if f.Name != "" {
		if text := descriptions()[typeName(f.Owner)+"."+f.Name]; text != "" {
			description = text
		}
	}
	if description == "" && v.Kind() != reflect.Struct {
		description = section
	}
	if description == "" {
		description = descriptions()[typeName(v.Type())]
	}
	var s object
	switch v.Kind() {
	case reflect.Struct:
		var properties object
		for _, f := range keys.Fields(v) {
			properties = append(properties, member{f.Key, schemaOf(f.Value, f, keys.Join(path, f.Key), description)})
		}
		s = object{{"properties", properties}, {"additionalProperties", false}, {"type", "object"}}
	case reflect.Map:
		s = object{{"additionalProperties", object{{"type", "number"}}}, {"type", "object"}}
	case reflect.Slice:
		element := reflect.New(v.Type().Elem()).Elem()
		items := schemaOf(element, keys.Field{Rule: f.Rule, HasRule: f.HasRule}, path+"[]", "")
		s = object{{"items", items}, {"type", "array"}}
	default:
		s = scalarSchema(v.Kind(), f)
	}
	if description != "" {
		s = append(s, member{"description", description})
	}
	if isScalar := len(s) > 0 && s[0].key == "type"; isScalar && !strings.Contains(path, "[]") {
		s = append(s, member{"default", v.Interface()})
	}
	return s
}

func scalarSchema(kind reflect.Kind, f keys.Field) object {
	switch kind {
	case reflect.Bool:
		return object{{"type", "boolean"}}
	case reflect.String:
		s := object{{"type", "string"}}
		if f.HasRule {
			s = append(s, member{"enum", f.Rule.Choices})
		}
		return s
	}
	s := object{{"type", "integer"}}
	if kind == reflect.Float64 {
		s = object{{"type", "number"}}
	}
	if !f.HasRule {
		return s
	}
	choices, interval := object{{"enum", f.Rule.Numbers()}}, intervalSchema(f.Rule)
	switch {
	case !f.Rule.Ranged:
		return append(s, choices...)
	case f.Rule.Choices == nil:
		return append(s, interval...)
	}
	return append(s, member{"anyOf", []object{choices, interval}})
}

func intervalSchema(r keys.Rule) (s object) {
	if r.HasMax() {
		s = append(s, member{"maximum", number(r.Max)})
	}
	switch {
	case r.Above:
		s = append(s, member{"exclusiveMinimum", number(r.Min)})
	case r.HasMin():
		s = append(s, member{"minimum", number(r.Min)})
	}
	return s
}

func number(v float64) json.Number { return json.Number(strconv.FormatFloat(v, 'g', -1, 64)) }

// typeName returns the name of a type in descriptions.
func typeName(t reflect.Type) string { return t.PkgPath() + "." + t.Name() }

// object is a JSON object with its members in order.
type object []member

type member struct {
	key   string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, m := range o {
		key, err := json.Marshal(m.key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	if len(o) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
